// Package pgserver runs the private PostgreSQL of an instance: the distribution's binaries, a user, a data directory and a socket of
// its own. It listens on no network address, and lets in whom the kernel says is the right user (peer), so there is no password to lose.
//
// It isn't for a PostgreSQL that somebody else runs. Its invariant: the data directory either isn't there or is complete, with the
// database in it, and what the server acknowledged survives a power cut: fsync, synchronous_commit and full_page_writes stay on.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Database is the platform's database, and the role that owns it.
const Database = "space"

// superuser is the role for administration; the platform never uses it.
const superuser = "postgres"

// initTimeout bounds the making of the data directory: a few seconds on a quiet machine.
const initTimeout = 3 * time.Minute

// Server is one private PostgreSQL. Its methods run as the server's user.
type Server struct {
	Bin     string   // directory of the binaries; see Binaries
	Data    string   // the data directory; its parent exists and belongs to the server's user
	Sockets string   // directory of the socket
	Admins  []string // system users who may be superuser, and the owner of Database
	Owners  []string // system users who may be the owner of Database
}

// Socket is the path of the server's socket.
func (s Server) Socket() string { return filepath.Join(s.Sockets, ".s.PGSQL.5432") }

// Ensure makes the data directory if there is none, and writes the server's configuration anew.
func (s Server) Ensure(ctx context.Context) error {
	if err := s.checkVersion(); errors.Is(err, fs.ErrNotExist) {
		if err := s.create(ctx); err != nil {
			return fmt.Errorf("make the database's directory %s: %w", s.Data, err)
		}
	} else if err != nil {
		return err
	}
	return s.configure(s.Data)
}

// checkVersion refuses data of another major version, which PostgreSQL would refuse less politely; fs.ErrNotExist if there is none.
func (s Server) checkVersion() error {
	b, err := os.ReadFile(filepath.Join(s.Data, "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	if have, want := strings.TrimSpace(string(b)), majorOf(s.Bin); have != want {
		return fmt.Errorf("%s was made by PostgreSQL %s, and %s is %s: install postgresql-%s", s.Data, have, s.Bin, want, have)
	}
	return nil
}

// create builds the directory beside its place and moves it there when it's whole.
func (s Server) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	tmp := s.Data + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := s.initdb(ctx, tmp); err != nil {
		return err
	}
	if err := s.configure(tmp); err != nil {
		return err
	}
	if err := s.single(ctx, tmp, "CREATE ROLE "+Database+" LOGIN", "CREATE DATABASE "+Database+" OWNER "+Database); err != nil {
		return err
	}
	if err := os.Rename(tmp, s.Data); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.Data))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
