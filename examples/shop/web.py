"""The shop's web app: `uvicorn shop.web:app`."""

import os
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from .database import Order, session
from .jobs import charge, jobs

# In development the app runs the jobs, too. Where workers do, it only enqueues.
app = FastAPI(lifespan=jobs.lifespan(run="SHOP_ONLY_ENQUEUES" not in os.environ))

Session = Annotated[AsyncSession, Depends(session)]


class NewOrder(BaseModel):
    """What a customer sends."""

    customer: str
    cents: int
    card: str


@app.post("/orders", status_code=202)
async def place(new: NewOrder, session: Session) -> dict[str, int]:
    """Take an order: it and the job that charges it are committed together."""
    order = Order(customer=new.customer, cents=new.cents)
    session.add(order)
    await session.flush()  # the order has its id
    charging = charge.using(connection=session, dedup_key=f"order {order.id}")
    handle = await charging.enqueue(order.id, new.customer, new.card)
    order_id = order.id
    await session.commit()
    return {"order": order_id, "job": handle.id}


@app.get("/orders/{order_id}")
async def show(order_id: int, session: Session) -> dict[str, Any]:
    """How far an order is."""
    if (order := await session.get(Order, order_id)) is None:
        raise HTTPException(404, f"there is no order {order_id}")
    return {"order": order.id, "status": order.status}
