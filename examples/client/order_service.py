"""A service that takes orders and sends each to its broker once."""

from epochmq import Message, Producer, errors


class OrderService:
    """Takes orders; `unsure` are those that may be stored or not."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.unsure: list[str] = []

    async def place(self, order: str) -> bool:
        """Send an order; return whether it is stored."""
        try:
            await self._producer.send(Message("orders", order.encode(), keys=(order,)))
        except errors.EpochError as error:
            if error.outcome is errors.Outcome.UNKNOWN:
                self.unsure.append(order)  # ask later by its key; sending again may store it twice
            elif not error.retriable:
                raise  # it is not stored, and sending it again does not help
            return False
        return True
