package record

import "time"

// Key is an API key as the store knows it: never the key itself.
type Key struct {
	ID         string
	Project    string
	Prefix     string // its visible beginning
	Hash       [32]byte
	Revoked    bool
	LastUsedAt time.Time // coarse; zero if never
}

// NewKey is a key to be stored.
type NewKey struct {
	ID      string
	Project string
	Name    string
	Prefix  string
	Hash    [32]byte
}
