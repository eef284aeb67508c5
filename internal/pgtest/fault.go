package pgtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Fault cuts a connection at a commit, once.
type Fault struct {
	mode atomic.Int32
}

const (
	cutNever int32 = iota
	cutBefore
	cutAfter
)

// BeforeCommit cuts the next commit's connection before the server hears of it: the transaction has no effect.
func (f *Fault) BeforeCommit() { f.mode.Store(cutBefore) }

// AfterCommit cuts the next commit's connection when the server has committed, before the client hears of it.
func (f *Fault) AfterCommit() { f.mode.Store(cutAfter) }

// Pending reports whether the fault hasn't come yet.
func (f *Fault) Pending() bool { return f.mode.Load() != cutNever }

// Faulty returns a pool on a database, whose connections a fault can cut. It ends with the test.
func Faulty(t testing.TB, url string) (*pgxpool.Pool, *Fault) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	f := new(Fault)
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &faultyConn{Conn: c, fault: f}, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, f
}

// commitMessages are those with which pgx commits: a simple query, or a Bind of the statement that it has prepared under the hash of its text.
var commitMessages = [][]byte{
	[]byte("Q\x00\x00\x00\x0bcommit\x00"),
	fmt.Appendf(nil, "\x00stmtcache_%x\x00\x00", func() []byte { h := sha256.Sum256([]byte("commit")); return h[:24] }()),
}

// faultyConn watches for the message with which pgx commits.
type faultyConn struct {
	net.Conn
	fault *Fault
}

func (c *faultyConn) Write(b []byte) (int, error) {
	if !slices.ContainsFunc(commitMessages, func(m []byte) bool { return bytes.Contains(b, m) }) {
		return c.Conn.Write(b)
	}
	switch c.fault.mode.Swap(cutNever) {
	case cutBefore:
		c.Close()
		return 0, net.ErrClosed
	case cutAfter:
		n, err := c.Conn.Write(b)
		if err != nil {
			return n, err
		}
		_, _ = c.Read(make([]byte, 1)) // the server has answered: it's committed
		c.Close()
		return n, nil
	default:
		return c.Conn.Write(b)
	}
}
