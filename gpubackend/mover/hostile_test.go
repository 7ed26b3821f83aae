// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// hostile is a worker that writes what it likes to the ring. It loses its connection.
func hostile(t *testing.T, h *host, write func(r *ring)) {
	t.Helper()
	c := h.client()
	write(c.ring)
	notify(c.wake)
	deadline := time.Now().Add(patience)
	for !c.gone() {
		if time.Now().After(deadline) {
			t.Fatal("the connection is still open")
		}
		notify(c.wake)
	}
}

func TestHostileRings(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	put := func(r *ring, at int, words ...uint32) {
		for i, w := range words {
			binary.LittleEndian.PutUint32(r.mem[offRequests+at+4*i:], w)
		}
	}
	for name, write := range map[string]func(r *ring){
		"tail beyond the ring":       func(r *ring) { r.store(offRequestTail, requestBytes+8) },
		"tail of less than a record": func(r *ring) { r.store(offRequestTail, 4) },
		"empty record":               func(r *ring) { r.store(offRequestTail, 64) },
		"record past the tail": func(r *ring) {
			put(r, 0, 128, 0)
			r.store(offRequestTail, 64)
		},
		"odd size":      func(r *ring) { put(r, 0, 36, 0); r.store(offRequestTail, 64) },
		"unknown flags": func(r *ring) { put(r, 0, 32, 4); r.store(offRequestTail, 32) },
		"too many runs": func(r *ring) {
			put(r, 0, 32, 0, 0, 0, 0, 9)
			r.store(offRequestTail, 32)
		},
		"record too large": func(r *ring) {
			put(r, 0, maxRecord+16, 0, 0, 0, 0, maxRuns+1)
			r.store(offRequestTail, maxRecord+16)
		},
		"large record of another count": func(r *ring) {
			put(r, 0, maxRecord+16, 0, 0, 0, 0, maxRuns)
			r.store(offRequestTail, maxRecord+16)
		},
		"completions not given": func(r *ring) {
			put(r, 0, 32, 0)
			r.store(offCompletionHead, 5)
			r.store(offRequestTail, 32)
		},
	} {
		t.Run(name, func(t *testing.T) {
			hostile(t, h, write)
			b.check(t)
		})
	}
}

func TestHostileMessages(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	for name, send := range map[string]func(c *net.UnixConn) error{
		"no file": func(c *net.UnixConn) error {
			return sendMessage(c, message{kind: messageAttach, value: 4096})
		},
		"what isn't lent": func(c *net.UnixConn) error {
			return sendMessage(c, message{kind: messageDetach, number: 1})
		},
		"asks back with a file": func(c *net.UnixConn) error {
			return sendMessage(c, message{kind: messageDetach, number: 1}, 0)
		},
		"unknown kind": func(c *net.UnixConn) error { return sendMessage(c, message{kind: 77}) },
		"short":        func(c *net.UnixConn) error { _, err := c.Write([]byte{1}); return err },
		"long": func(c *net.UnixConn) error {
			_, err := c.Write(make([]byte, 400))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := h.client()
			if err := send(c.conn); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(patience); !c.gone(); {
				if time.Now().After(deadline) {
					t.Fatal("the connection is still open")
				}
			}
			b.check(t)
		})
	}
}

func TestRingIsSealed(t *testing.T) {
	_, region := oneRegion(t, 1<<20)
	c := startHost(t, region).client()
	if err := unix.Ftruncate(c.ring.fd, 0); err == nil {
		t.Error("a worker can cut the ring short")
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(appendRecord(nil,
		&request{sequence: 1, staging: 1, toDevice: true,
			runs: []wire.Run{{Address: guestBase, Bytes: 4096}}}))
	f.Add([]byte{8, 0, 0, 0, 2, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, ok, err := decodeRequest(b, nil)
		if err != nil && !errors.Is(err, errProtocol) {
			t.Fatalf("error %v", err)
		}
		if err != nil || !ok {
			return
		}
		again := appendRecord(nil, &q)
		if len(again) != len(b) || !bytes.Equal(again[4:], b[4:]) {
			t.Fatalf("decoded %x, encoded %x", b, again)
		}
	})
}
