package nodesync

import "github.com/space-platform/space/internal/control/record"

// uploads writes how much the node has of each upload, and has it remove those that are deleted or that nobody knows any more. Nothing is
// doubted: a figure that is wrong is put right by the next report.
func (d *decision) uploads(wanted []record.UploadSeen) {
	reported := map[string]int64{}
	for _, r := range d.report.Uploads {
		reported[r.ID] = r.Bytes
	}
	known := map[string]bool{}
	for _, w := range wanted {
		known[w.ID] = true
		bytes, there := reported[w.ID]
		if (there || d.report.Complete) && bytes != w.Bytes {
			d.plan.Uploads = append(d.plan.Uploads, record.UploadSeen{ID: w.ID, Bytes: bytes})
		}
	}
	for _, r := range d.report.Uploads {
		if !known[r.ID] {
			d.order(Order{Kind: RemoveUpload, Upload: r.ID}, true)
		}
	}
}
