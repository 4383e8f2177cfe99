# Prints what tests have noted by suite.NotHere: folder, test and what it needs, separated by tabs. A test that was tried twice is one.

BEGIN { FS = "\t" }
seen[$0]++ { next }
!n++ { print "not run here, and so neither passed nor failed:" }
{ printf "  %s %s: needs %s\n", index($1, root "/") == 1 ? substr($1, length(root) + 2) : $1 == root ? "." : $1, $2, $3 }
