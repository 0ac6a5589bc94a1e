"""Tables as users have them: any DataFrame or file in, the same kind out; columns, ids, arms and roles."""
