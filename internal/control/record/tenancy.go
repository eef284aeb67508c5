package record

import (
	"time"

	space "github.com/space-platform/space"
)

// Org is an organisation.
type Org struct {
	ID   string
	Name string
}

// Quota is what the sandboxes of a project, and on disk its templates, may have together. Nil is unlimited.
type Quota struct {
	Sandboxes   *int64
	VCPUs       *int64
	MemoryBytes *int64
	DiskBytes   *int64
}

// Usage is what the sandboxes of a project, and on disk its templates, have together. One that is to be deleted counts no more; one that is to be stopped has no
// vCPUs and no memory.
type Usage struct {
	Sandboxes   int64
	VCPUs       int64
	MemoryBytes int64
	DiskBytes   int64
}

// With is the usage with more.
func (u Usage) With(more Usage) Usage {
	return Usage{
		Sandboxes: u.Sandboxes + more.Sandboxes, VCPUs: u.VCPUs + more.VCPUs, MemoryBytes: u.MemoryBytes + more.MemoryBytes, DiskBytes: u.DiskBytes + more.DiskBytes,
	}
}

// Project is a project of an organisation.
type Project struct {
	ID    string
	Org   string
	Name  string
	Quota Quota
	Used  Usage

	UploadBytes int64 // of its uploads, which have a limit of their own
	CreatedAt   time.Time
}

// NewProject is a project to be.
type NewProject struct {
	ID      string
	Org     string
	Name    string
	Quota   Quota
	Request Request
	By      string // the project of the key that asks, whose Idempotency-Keys count
}

// ProjectChange is what is to change of a project. Nil stays.
type ProjectChange struct {
	Name  *string
	Quota *Quota // as a whole
}

// User is a user of an organisation.
type User struct {
	ID        string
	Name      string
	Role      space.Role
	CreatedAt time.Time
}

// NewUser is a user to be.
type NewUser struct {
	ID      string
	Org     string
	Name    string
	Role    space.Role
	Request Request
	By      string // the project of the key that asks, whose Idempotency-Keys count
}
