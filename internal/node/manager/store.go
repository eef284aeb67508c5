package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"go.etcd.io/bbolt"

	"github.com/space-platform/space/internal/telemetry"
)

// lockTimeout is how long open waits for an earlier process to let go of the file.
const lockTimeout = 5 * time.Second

var (
	bucketExecutions = []byte("executions") // execution id → record
	bucketTemplates  = []byte("templates")  // template id → templateOrder
	bucketLives      = []byte("lives")      // its sequence is the number of the newest
)

var commits = telemetry.NewCounter("space_node_record_commits_total", "Transactions with the node's records.").WithLabelValues()

// store keeps the records in one file. A write is on disk when it returns.
type store struct {
	db   *bbolt.DB
	life uint64 // counts the processes that opened the file
}

func openStore(path string) (*store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout})
	if err != nil {
		return nil, fmt.Errorf("open runtime records %s: %w", path, err)
	}
	s := &store{db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		lives, err := tx.CreateBucketIfNotExists(bucketLives)
		if err != nil {
			return err
		}
		if s.life, err = lives.NextSequence(); err != nil {
			return err
		}
		for _, b := range [][]byte{bucketExecutions, bucketTemplates} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("open runtime records %s: %w", path, err)
	}
	return s, nil
}

func (s *store) close() error { return s.db.Close() }

// load reads all records.
func (s *store) load() (map[string]record, map[string]templateOrder, error) {
	records, orders := map[string]record{}, map[string]templateOrder{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		if err := each(tx.Bucket(bucketExecutions), records); err != nil {
			return err
		}
		return each(tx.Bucket(bucketTemplates), orders)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("load runtime records: %w", err)
	}
	return records, orders, nil
}

func each[T any](b *bbolt.Bucket, into map[string]T) error {
	return b.ForEach(func(k, v []byte) error {
		var t T
		if err := json.Unmarshal(v, &t); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		into[string(k)] = t
		return nil
	})
}

// change is what one transaction writes; a nil value deletes.
type change struct {
	records map[string]*record
	orders  map[string]*templateOrder
}

func newChange() change {
	return change{records: map[string]*record{}, orders: map[string]*templateOrder{}}
}

// log tells which orders a change takes, each under the request that asked for it.
func (c change) log() {
	for id, r := range c.records {
		slog.InfoContext(r.Cause.In(context.Background()), "took an order", "sandbox", r.Route.Sandbox, "execution", id, "wanted", string(r.Wanted))
	}
	for id, o := range c.orders {
		slog.InfoContext(o.Cause.In(context.Background()), "took an order", "template", id, "remove", o.Remove)
	}
}

// with is the change and another one, which speaks of other things.
func (c change) with(o change) change {
	out := change{records: maps.Clone(c.records), orders: maps.Clone(c.orders)}
	maps.Copy(out.records, o.records)
	maps.Copy(out.orders, o.orders)
	return out
}

// lasting is the part of the change that must outlive the process.
func (c change) lasting() change {
	out := change{records: maps.Clone(c.records), orders: withoutSecrets(c.orders)}
	maps.DeleteFunc(out.records, func(_ string, r *record) bool { return r != nil && r.passing() })
	return out
}

func (c change) empty() bool { return len(c.records) == 0 && len(c.orders) == 0 }

func (s *store) write(c change) error {
	if c = c.lasting(); c.empty() {
		return nil
	}
	commits.Inc()
	err := s.db.Update(func(tx *bbolt.Tx) error {
		if err := writeAll(tx.Bucket(bucketExecutions), c.records); err != nil {
			return err
		}
		return writeAll(tx.Bucket(bucketTemplates), c.orders)
	})
	if err != nil {
		return fmt.Errorf("write runtime records: %w", err)
	}
	return nil
}

// withoutSecrets has an order with a login as one that isn't there.
func withoutSecrets(orders map[string]*templateOrder) map[string]*templateOrder {
	out := maps.Clone(orders)
	for id, o := range out {
		if o != nil && o.secret {
			out[id] = nil
		}
	}
	return out
}

func writeAll[T any](b *bbolt.Bucket, values map[string]*T) error {
	for k, v := range values {
		if v == nil {
			if err := b.Delete([]byte(k)); err != nil {
				return err
			}
			continue
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		if err := b.Put([]byte(k), raw); err != nil {
			return err
		}
	}
	return nil
}
