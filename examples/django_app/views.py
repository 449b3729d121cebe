"""Orders are taken and shown."""

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.http import require_POST

from examples.django_app.jobs import confirm
from examples.django_app.models import Order


@require_POST
def place(request: HttpRequest) -> HttpResponse:
    """The order and its job are committed together. An order that cannot be placed has no job, either."""
    with transaction.atomic():
        order = Order.objects.create(customer=request.POST["customer"])
        handle = confirm.using(connection=connection).enqueue_sync(order.pk)
        if request.POST.get("card") == "declined":
            transaction.set_rollback(True)
            return JsonResponse({"order": None}, status=402)
    return JsonResponse({"order": order.pk, "job": handle.id}, status=202)


def show(request: HttpRequest, customer: str) -> HttpResponse:
    """Whether it is confirmed."""
    return JsonResponse({"confirmed": get_object_or_404(Order, customer=customer).confirmed})


urlpatterns = [path("orders", place), path("orders/<str:customer>", show)]
