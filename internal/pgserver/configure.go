package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// settings are for a control plane's database: small, and durable before all else.
const settings = `# written anew at each start
listen_addresses = ''
unix_socket_directories = '%s'
unix_socket_permissions = 0770
max_connections = 60
shared_buffers = 64MB
jit = off
# what was acknowledged survives a power cut: these three stay on
fsync = on
synchronous_commit = on
full_page_writes = on
min_wal_size = 32MB
max_wal_size = 512MB
timezone = 'UTC'
log_timezone = 'UTC'
log_destination = 'stderr'
logging_collector = off
log_line_prefix = '%%m [%%p] %%q%%u@%%d '
`

// configure writes the three files that say how the server runs, and who may come in as whom.
func (s Server) configure(dir string) error {
	files := map[string]string{
		"postgresql.conf": fmt.Sprintf(settings, strings.ReplaceAll(s.Sockets, "'", "''")),
		"pg_hba.conf":     "# written anew at each start\nlocal all all peer map=space\n",
		"pg_ident.conf":   s.ident(),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("configure PostgreSQL: %w", err)
		}
	}
	return nil
}

func (s Server) ident() string {
	var b strings.Builder
	b.WriteString("# written anew at each start: map, system user, role\n")
	for _, u := range s.Admins {
		fmt.Fprintf(&b, "space %q %s\nspace %q %s\n", u, superuser, u, Database)
	}
	for _, u := range s.Owners {
		fmt.Fprintf(&b, "space %q %s\n", u, Database)
	}
	return b.String()
}
