package pgtest

import (
	"fmt"
	"net"
	"testing"
)

// Network returns the address of an empty database on a server of its own that listens on loopback and wants a password, as somebody
// else's would. Settings, like "fsync=off", are the server's. It ends with the test.
func Network(t testing.TB, password string, settings ...string) (url string) {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s, err := start(fmt.Sprintf("-%d", port), port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	if err := s.await(); err != nil {
		t.Fatal(err)
	}
	statements := []string{"CREATE ROLE app LOGIN PASSWORD '" + password + "'", "CREATE DATABASE app OWNER app"}
	for _, setting := range settings {
		statements = append(statements, "ALTER SYSTEM SET "+setting)
	}
	for _, statement := range append(statements, "SELECT pg_reload_conf()") {
		if err := s.exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("postgres://app:%s@127.0.0.1:%d/app?sslmode=disable", password, port)
}

// freePort is a port that nobody listens on right now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
