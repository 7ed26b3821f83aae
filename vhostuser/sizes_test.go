// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"io"
	"net"
	"testing"
)

// stateless is a device that isn't asked for more than how it is made up.
type stateless struct{ Device }

func (stateless) NumQueues() int   { return 1 }
func (stateless) Features() uint64 { return 0 }

// stateful is one whose state can be taken along.
type stateful struct{ stateless }

func (stateful) SaveState(io.Writer) error { return nil }
func (stateful) LoadState(io.Reader) error { return nil }

// TestHandlersLookForThemselves: where the list of rules let a payload of a wrong size through, the
// handler would refuse it, before anything changes.
func TestHandlersLookForThemselves(t *testing.T) {
	t.Parallel()
	for name, dev := range map[string]Device{"stateless": stateless{}, "stateful": stateful{}} {
		s, err := New(&net.UnixConn{}, dev, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for request, handle := range handlers {
			rule := rules[request]
			if rule.min == 0 {
				continue
			}
			sizes := []int{0, 1, rule.min - 1}
			if request != SetMemTable { // which may have what is no region behind its regions
				sizes = append(sizes, rule.max+1)
			}
			for _, size := range sizes {
				_, err := handle(s, &Message{Request: request, Payload: make([]byte, size)})
				if !errors.Is(err, ErrProtocol) {
					t.Errorf("%s: %v of %d bytes: %v", name, request, size, err)
				}
			}
		}
	}
}
