"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order, confirmed by a job."""

    customer = models.CharField(max_length=100, unique=True)
    confirmed = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.customer}"
