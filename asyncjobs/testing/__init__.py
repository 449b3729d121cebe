"""What users' tests and ours share: a recorder of events, an auditor of the promises, a clock that can be moved."""
