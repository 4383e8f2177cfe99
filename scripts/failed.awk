# Prints what failed in the output of go test: a test a line, with the first line that says why.
#
# A failed test comes as "--- FAIL: Name (1.2s)", indented below the test that it is a part of, and then its messages.

function done() { if (name != "") print "  " name (why == "" ? "" : ": " why); name = "" }

/^(vet: )?[^ ]+\.go:[0-9]+:[0-9]+: / { done(); print "  " $0; next } # of the compiler, vet or the linter
/^FAIL\t.*\[(build|setup) failed\]/ { done(); print "  " $0; next }
# What the runtime says of a process that dies, and go test of one that is killed: no test has failed then.
/^(panic|fatal error|SIG[A-Z]+|signal): / { done(); print "  " $0; next }
/^ *--- FAIL: / {
	done()
	name = $3; why = ""; more = 0
	next
}
/^ *--- (PASS|SKIP): / { done(); next }
/^(FAIL|ok|PASS|---)/ { if ($1 == "FAIL" && NF > 1) { done(); print "  " $0 } else done(); next }
name != "" && why == "" {
	line = $0
	if (line ~ /Error Trace:/ || line ~ /^[ \t]*$/ || line ~ /^[ \t]+[^ ]*_test\.go:[0-9]+: *$/ || line ~ /^[ \t]+[\/a-z_.]+\.go:[0-9]+ *$/) next
	sub(/^[ \t]+/, "", line)
	if (line ~ /^Error: /) { sub(/^Error: +\t*/, "", line); if (line ~ /:[ \t]*$/) { held = line; more = 1; next } }
	if (more) { sub(/^[ \t]+/, "", line); line = held " " line; more = 0 }
	why = substr(line, 1, 200)
}
END { done() }
