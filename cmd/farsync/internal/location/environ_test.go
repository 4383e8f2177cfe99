package location

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheURLAloneSaysWhere: no variable of libpq, and no file that it reads, changes what is connected to.
func TestTheURLAloneSaysWhere(t *testing.T) {
	l, err := Parse("postgres://u@h/app")
	require.NoError(t, err)
	services := filepath.Join(t.TempDir(), "services")
	require.NoError(t, os.WriteFile(services, []byte("[other]\nhost=elsewhere\nsearch_path=other\nsslmode=require\npool_max_conns=1\n"), 0o600))
	passwords := filepath.Join(t.TempDir(), "passwords")
	require.NoError(t, os.WriteFile(passwords, []byte("*:*:*:*:secret\n"), 0o600))
	plain, err := l.pool("", nil)
	require.NoError(t, err)
	for name, value := range map[string]string{
		"PGHOST": "elsewhere", "PGPORT": "1", "PGDATABASE": "other", "PGUSER": "other", "PGPASSWORD": "secret", "PGPASSFILE": passwords,
		"PGAPPNAME": "other", "PGCONNECT_TIMEOUT": "none", "PGSSLMODE": "verify-full", "PGSSLKEY": "/none", "PGSSLCERT": "/none",
		"PGSSLSNI": "0", "PGSSLROOTCERT": "/none", "PGSSLPASSWORD": "secret", "PGSSLNEGOTIATION": "direct",
		"PGTARGETSESSIONATTRS": "standby", "PGSERVICE": "other", "PGSERVICEFILE": services, "PGTZ": "other", "PGOPTIONS": "-c search_path=other",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if name == "PGSERVICE" {
				t.Setenv("PGSERVICEFILE", services)
			}
			to, err := l.pool("", nil)
			require.NoError(t, err)
			c := to.ConnConfig
			require.Equal(t, []string{"h", "u", "app", ""}, []string{c.Host, c.User, c.Database, c.Password})
			require.EqualValues(t, 5432, c.Port)
			require.Empty(t, c.RuntimeParams)
			require.Nil(t, c.TLSConfig)
			require.Empty(t, c.Fallbacks)
			require.Empty(t, c.SSLNegotiation)
			require.Nil(t, c.ValidateConnect)
			require.Equal(t, plain.ConnConfig.ConnectTimeout, c.ConnectTimeout)
			require.Equal(t, plain.MaxConns, to.MaxConns)
		})
	}
	l, err = Parse("postgres://u@h/app?schema=Team")
	require.NoError(t, err)
	to, err := l.pool("", nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"search_path": `"Team"`}, to.ConnConfig.RuntimeParams)
}
