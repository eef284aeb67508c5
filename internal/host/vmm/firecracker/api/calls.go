package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Instance is what Firecracker says of itself.
type Instance struct {
	ID      string `json:"id"`
	State   string `json:"state"` // NotStarted, Running or Paused
	Version string `json:"vmm_version"`
	Name    string `json:"app_name"`
}

// The states of an instance.
const (
	NotStarted = "Not started"
	Running    = "Running"
	Paused     = "Paused"
)

// Instance asks what it is and does.
func (c *Client) Instance(ctx context.Context) (i Instance, err error) {
	return i, c.call(ctx, http.MethodGet, "/", nil, &i)
}

// Machine is the shape of a machine that will boot.
type Machine struct {
	VCPUs      int   `json:"vcpu_count"`
	MemoryMiB  int64 `json:"mem_size_mib"`
	SMT        bool  `json:"smt"`
	TrackDirty bool  `json:"track_dirty_pages"` // for diff snapshots
}

// SetMachine sets it.
func (c *Client) SetMachine(ctx context.Context, m Machine) error {
	return c.call(ctx, http.MethodPut, "/machine-config", m, nil)
}

// SetCPU sets which of the processor's features the guest sees, as a custom CPU template says.
func (c *Client) SetCPU(ctx context.Context, template json.RawMessage) error {
	return c.call(ctx, http.MethodPut, "/cpu-config", template, nil)
}

// Boot is what a machine boots. Paths are those that Firecracker sees, here and below.
type Boot struct {
	Kernel string `json:"kernel_image_path"`
	Initrd string `json:"initrd_path,omitempty"`
	Args   string `json:"boot_args,omitempty"`
}

// SetBoot sets it.
func (c *Client) SetBoot(ctx context.Context, b Boot) error {
	return c.call(ctx, http.MethodPut, "/boot-source", b, nil)
}

// Drive is a block device with a file behind it.
type Drive struct {
	ID        string `json:"drive_id"`
	Path      string `json:"path_on_host"`
	Root      bool   `json:"is_root_device"`
	ReadOnly  bool   `json:"is_read_only"`
	CacheType string `json:"cache_type,omitempty"` // Writeback passes the guest's flushes on; Unsafe, which is what none means, doesn't
	Limiter   *Rate  `json:"rate_limiter,omitempty"`
}

// SetDrive adds it.
func (c *Client) SetDrive(ctx context.Context, d Drive) error {
	return c.call(ctx, http.MethodPut, "/drives/"+url.PathEscape(d.ID), d, nil)
}

// Network is a network device with a tap behind it.
type Network struct {
	ID      string `json:"iface_id"`
	Tap     string `json:"host_dev_name"`
	MAC     string `json:"guest_mac,omitempty"`
	Receive *Rate  `json:"rx_rate_limiter,omitempty"` // seen from the guest
	Send    *Rate  `json:"tx_rate_limiter,omitempty"`
}

// SetNetwork adds it.
func (c *Client) SetNetwork(ctx context.Context, n Network) error {
	return c.call(ctx, http.MethodPut, "/network-interfaces/"+url.PathEscape(n.ID), n, nil)
}

// NetworkLimits are what can be changed of a network device while the machine runs.
type NetworkLimits struct {
	ID      string `json:"iface_id"`
	Receive *Rate  `json:"rx_rate_limiter,omitempty"`
	Send    *Rate  `json:"tx_rate_limiter,omitempty"`
}

// LimitNetwork changes them.
func (c *Client) LimitNetwork(ctx context.Context, l NetworkLimits) error {
	return c.call(ctx, http.MethodPatch, "/network-interfaces/"+url.PathEscape(l.ID), l, nil)
}

// Rate limits what passes through a device.
type Rate struct {
	Bandwidth *Bucket `json:"bandwidth,omitempty"` // tokens are bytes
	Ops       *Bucket `json:"ops,omitempty"`       // tokens are operations
}

// Bucket holds Size tokens at most and is filled again in Refill milliseconds.
type Bucket struct {
	Size   int64 `json:"size"`
	Refill int64 `json:"refill_time"`
}

// Vsock is a vsock device with a unix socket behind it, which Firecracker makes.
type Vsock struct {
	CID  uint32 `json:"guest_cid"`
	Path string `json:"uds_path"`
}

// SetVsock adds it.
func (c *Client) SetVsock(ctx context.Context, v Vsock) error {
	return c.call(ctx, http.MethodPut, "/vsock", v, nil)
}

// AddEntropy adds a device from which the guest gets random bytes.
func (c *Client) AddEntropy(ctx context.Context) error {
	return c.call(ctx, http.MethodPut, "/entropy", struct{}{}, nil)
}

// Start boots the machine that was described.
func (c *Client) Start(ctx context.Context) error {
	return c.call(ctx, http.MethodPut, "/actions", map[string]string{"action_type": "InstanceStart"}, nil)
}

// Pause stops the guest's processors. It may be repeated.
func (c *Client) Pause(ctx context.Context) error { return c.setState(ctx, "Paused") }

// Resume lets them go on. It may be repeated.
func (c *Client) Resume(ctx context.Context) error { return c.setState(ctx, "Resumed") }

func (c *Client) setState(ctx context.Context, state string) error {
	return c.call(ctx, http.MethodPatch, "/vm", map[string]string{"state": state}, nil)
}

// Save says where a snapshot of a paused machine goes.
type Save struct {
	Type   string `json:"snapshot_type"` // Full or Diff
	State  string `json:"snapshot_path"`
	Memory string `json:"mem_file_path"`
}

// The types of a snapshot. A Diff writes the pages that have changed since the machine was started, or saved last, to their places in the
// memory file.
const (
	Full = "Full"
	Diff = "Diff"
)

// Save writes a snapshot.
func (c *Client) Save(ctx context.Context, s Save) error {
	return c.call(ctx, http.MethodPut, "/snapshot/create", s, nil)
}

// Load says where a snapshot is, and what is different in the machine that is loaded from it.
type Load struct {
	State      string            `json:"snapshot_path"`
	Memory     Memory            `json:"mem_backend"`
	TrackDirty bool              `json:"track_dirty_pages"` // for diff snapshots
	Resume     bool              `json:"resume_vm"`
	Networks   []NetworkOverride `json:"network_overrides,omitempty"`
	Vsock      *VsockOverride    `json:"vsock_override,omitempty"` // since 1.16
}

// Memory says where the guest's memory comes from.
type Memory struct {
	Type string `json:"backend_type"` // File
	Path string `json:"backend_path"`
}

// NetworkOverride gives a network device another tap.
type NetworkOverride struct {
	ID  string `json:"iface_id"`
	Tap string `json:"host_dev_name"`
}

// VsockOverride gives the vsock device another socket.
type VsockOverride struct {
	Path string `json:"uds_path"`
}

// Load loads a snapshot into a Firecracker that was told nothing else.
func (c *Client) Load(ctx context.Context, l Load) error {
	return c.call(ctx, http.MethodPut, "/snapshot/load", l, nil)
}
