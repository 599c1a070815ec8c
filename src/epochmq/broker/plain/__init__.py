"""Master and slaves without controllers: what `brokerRole` and `brokerId` say is what is."""
