"""Pure rules: no await, no SQL, no clock."""
