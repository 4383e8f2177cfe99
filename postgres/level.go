package postgres

// needed is the isolation level of every statement of a Store. A transaction that keeps its first snapshot does not see
// who has come to wait since, and would tell none.
const needed = "read committed"

// setLevel is an expression that sees to the level of a connection to the server itself, whose process has the number
// pid. The default may be another, which the server, the database, the role or the caller's config has set. Where it is
// read committed, the level is set all the same: a connection that was not told keeps to the default of the server, and
// takes on another when the server reads its files again. A proxy lends its connections to other clients, whose default
// must stay as it is, and may lend a connection that was made when the default was another: there send sets the level
// of each transaction.
func setLevel(pid string) string {
	return "CASE pg_backend_pid() WHEN " + pid + " THEN set_config('default_transaction_isolation', '" + needed + "', false) END"
}
