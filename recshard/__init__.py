"""Plans where the rows of a recommendation model's embedding tables live, and proves how good the plan is."""
