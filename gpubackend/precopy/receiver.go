// SPDX-License-Identifier: Apache-2.0

package precopy

import (
	"bytes"
	"errors"
	"time"

	"github.com/paracuda/paracuda/internal/plain"
)

// Store keeps sectors of a session. Its owner bounds what is in it.
type Store interface {
	Put(channel int, address uint64, b []byte) error
}

// Receive is the destination's side. begin makes the store of a session; all is called when the
// store is complete, before the source is told. limit is how long sending an answer may take; the
// source may take as long as it wants. What follows the end isn't read.
func Receive(
	c Conn, here Header, limit time.Duration,
	begin func(session uint64) (Store, error), all func(),
) error {
	r := &receiver{conn: c, limit: limit}
	if err := r.greeting(here); err != nil {
		return r.refuse(err)
	}
	store, err := begin(r.session)
	if err != nil {
		return r.refuse(err)
	}
	if err := r.answer(ready, ""); err != nil {
		return err
	}
	if err := r.frames(store); err != nil {
		return r.refuse(err)
	}
	all()
	return r.answer(hasAll, "")
}

// receiver is a session, as the destination has it.
type receiver struct {
	conn    Conn
	limit   time.Duration
	session uint64
	sent    runningSum
	got     runningSum
}

// greeting reads the greeting, and says why a VM can't come from there.
func (r *receiver) greeting(here Header) error {
	if err := r.conn.SetDeadline(time.Now().Add(r.limit)); err != nil {
		return err
	}
	var g greeting
	b := encode(&g)
	if err := r.got.read(r.conn, b); err != nil {
		return err
	}
	decode(b, &g)
	if g.Magic != magic || g.Format != format || g.Zero != 0 {
		return wrong("is of another format than this version reads")
	}
	r.session = g.Session
	for _, x := range []struct {
		what      string
		there     []byte
		here, fix string
	}{
		{"GPU", g.GPU[:], here.GPU, "migrate to a GPU of the same kind"},
		{"version of Paracuda", g.Version[:], here.Version, "use the same version"},
	} {
		if there := plain.Text(string(bytes.TrimRight(x.there, "\x00"))); there != x.here {
			return wrong("is of another %s, %q, this one is %q: %s", x.what, there, x.here, x.fix)
		}
	}
	return r.conn.SetDeadline(time.Time{})
}

// frames takes sectors up to the end.
func (r *receiver) frames(store Store) error {
	content := make([]byte, sectorBytes)
	var h frameHead
	b := encode(&h)
	for sectors := uint64(0); ; sectors++ {
		if err := fill(r.conn, b); err != nil {
			return err
		}
		r.got.add(b)
		switch decode(b, &h); {
		case h.Kind == end && h.Channel == 0 && h.Address == 0 && h.Number == sectors:
			return r.got.read(r.conn)
		case h.Kind != sector || h.Number != 0:
			return wrong("has a frame that this version doesn't know, or has lost some")
		case h.Channel >= MaxChannels || h.Address%sectorBytes != 0:
			return wrong("has a sector at %#x in channel %d, where none can be", h.Address,
				h.Channel)
		}
		if err := r.got.read(r.conn, content); err != nil {
			return err
		}
		if err := store.Put(int(h.Channel), h.Address, content); err != nil {
			return err
		}
	}
}

// refuse tells the source, if it still listens, and returns the error.
func (r *receiver) refuse(why error) error {
	_ = r.answer(refuses, why.Error())
	return why
}

func (r *receiver) answer(kind uint32, text string) error {
	b := []byte(text[:min(len(text), maxText)])
	a := answer{Magic: magic, Format: format, Kind: kind, Session: r.session, Sum: uint32(r.got),
		Text: uint32(len(b))}
	err := r.conn.SetDeadline(time.Now().Add(r.limit))
	if err == nil {
		err = r.sent.write(r.conn, encode(&a))
	}
	if err == nil {
		err = r.sent.write(r.conn, b)
	}
	return errors.Join(err, r.conn.SetDeadline(time.Time{}))
}
