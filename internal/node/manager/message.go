package manager

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// message is an order as it came on the wire. It's kept and handed on whole, so that what a newer control plane says in it reaches a newer
// host.
type message string

func messageOf(m proto.Message) (message, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("keep an order: %w", err)
	}
	return message(b), nil
}

// into reads the order. What was kept by messageOf can be read.
func (m message) into(order proto.Message) error {
	if err := proto.Unmarshal([]byte(m), order); err != nil {
		return fmt.Errorf("read an order that was kept: %w", err)
	}
	return nil
}

// MarshalJSON writes the bytes in base64.
func (m message) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(m)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *message) UnmarshalJSON(b []byte) error {
	var raw []byte
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*m = message(raw)
	return nil
}
