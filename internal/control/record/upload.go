package record

import "time"

const (
	// UploadLife is how long an upload's token lets a client send its bytes.
	UploadLife = time.Hour
	// UploadKept is how long after its creation an upload can be used by a build that begins.
	UploadKept = 24 * time.Hour
)

// Upload is what a client brings to a node for a build.
type Upload struct {
	ID        string
	Project   string
	Node      string
	Token     TokenHash
	SHA256    string // in hex; empty: whatever it is
	ExpiresAt time.Time
	Expired   bool
	DiskQuota *int64 // of its project, in bytes; nil: unlimited
}

// NewUpload is an upload to be stored.
type NewUpload struct {
	ID      string
	Project string
	Node    string
	Token   TokenHash
	SHA256  string
	Request Request
}
