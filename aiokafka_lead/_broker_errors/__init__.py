"""One class for each error code of the protocol. Import them from `aiokafka_lead.errors`."""
