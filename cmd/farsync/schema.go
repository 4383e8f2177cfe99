package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
)

// storeless is the annotation of a verb that needs no store.
const storeless = "storeless"

func (a *app) schemaVerb() *cobra.Command {
	schemas := map[string]func() string{"postgres": postgres.Schema, "mysql": mysqlSchema}
	return &cobra.Command{
		Use:   "schema postgres|mysql",
		Short: "Write the SQL that makes the tables of farsync",
		Long: `schema writes the SQL that makes the tables of farsync in a database, or brings those of an earlier version up to date. Running
it again changes nothing. A Store that opens the database needs none of the rights that this takes.

With ?migrate=1 in the URL of the store, every verb does the same first.`,
		Example: `  farsync schema postgres | psql DATABASE
  farsync schema mysql | mysql DATABASE`,
		Annotations: map[string]string{storeless: "yes"},
		Args:        takes(1, 1),
		ValidArgs:   []string{"mysql", "postgres"},
		RunE: func(_ *cobra.Command, arguments []string) error {
			write, known := schemas[arguments[0]]
			if !known {
				return usage("%s has no schema: write postgres or mysql", legible.Text(arguments[0]))
			}
			_, err := fmt.Fprint(a.stdout, write())
			return unwritten(err)
		},
	}
}

// mysqlSchema is for the client of MySQL, to which a statement ends with the next semicolon unless it is told
// otherwise.
func mysqlSchema() string {
	const delimiter = "//\n"
	return "DELIMITER " + delimiter + strings.Join(mysql.Schema(), delimiter) + delimiter + "DELIMITER ;\n"
}
