package instance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/BurntSushi/toml"
)

// databaseFile is what DatabaseFile holds.
type databaseFile struct {
	URL string `toml:"database_url"`
}

// ExternalDatabase reports whether the platform uses an existing PostgreSQL. Everybody may know that, not which.
func (i Instance) ExternalDatabase() bool {
	_, err := os.Stat(i.DatabaseFile())
	return err == nil
}

// SetDatabase writes down which existing PostgreSQL the platform uses. It reports whether that is another than before.
func SetDatabase(i Instance, url string) (changed bool, err error) {
	var before databaseFile
	if err := decode(i.DatabaseFile(), &before); err != nil {
		return false, err
	}
	if before.URL == url {
		return false, nil
	}
	if err := writeDatabase(i, url); err != nil {
		return false, fmt.Errorf("write down the database: %w", err)
	}
	return true, nil
}

// writeDatabase replaces the file in one step. At no moment can others read it.
func writeDatabase(i Instance, url string) (err error) {
	var b bytes.Buffer
	b.WriteString("# An existing PostgreSQL. Only root and the control plane's user can read this file; keep it so.\n")
	if err := toml.NewEncoder(&b).Encode(databaseFile{URL: url}); err != nil {
		return err
	}
	tmp := i.DatabaseFile() + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp) // gone after the rename
	_, err = f.Write(b.Bytes())
	if err := errors.Join(err, f.Chown(0, i.UID(API)), f.Chmod(0o640), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, i.DatabaseFile())
}
