// Package pgtest gives each test a database of its own on a private PostgreSQL, which the test binary starts from the distribution's
// programs and stops when its tests have ended. fsync and its kin stay on: the tests run what production runs.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		store := postgres.New(pgtest.Pool(t))
//
// A migrated template database is copied for each test, which takes a fraction of a second.
package pgtest
