// SPDX-License-Identifier: Apache-2.0

package precopy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/paracuda/paracuda/internal/plain"
)

// Sender is the source's side. After an error it can't be used.
type Sender struct {
	conn    Conn
	limit   time.Duration
	session uint64
	sent    runningSum
	got     runningSum
	sectors uint64
	early   []byte // of an answer
}

// Greet begins a session, with its number, and waits for the destination. limit bounds each step.
func Greet(c Conn, h Header, session uint64, limit time.Duration) (*Sender, error) {
	s := &Sender{conn: c, limit: limit, session: session}
	g := greeting{Magic: magic, Format: format, Session: session}
	if copy(g.GPU[:], h.GPU) < len(h.GPU) || copy(g.Version[:], h.Version) < len(h.Version) {
		return nil, fmt.Errorf("greet the other device process: %q and %q are too long", h.GPU,
			h.Version)
	}
	if err := s.write(encode(&g)); err != nil {
		return nil, err
	}
	return s, s.answer(ready)
}

// Sector sends a sector of a channel's program.
func (s *Sender) Sector(channel int, address uint64, b []byte) error {
	if len(b) != sectorBytes {
		return fmt.Errorf("send device memory ahead: a sector of %d bytes", len(b))
	}
	s.sectors++
	return s.write(encode(&frameHead{Kind: sector, Channel: uint32(channel), Address: address}), b)
}

// End says that this was all, and returns when the destination has it.
func (s *Sender) End() error {
	if err := s.write(encode(&frameHead{Kind: end, Number: s.sectors})); err != nil {
		return err
	}
	return s.answer(hasAll)
}

// Sent is how many bytes of device memory were sent.
func (s *Sender) Sent() uint64 { return s.sectors * sectorBytes }

func (s *Sender) write(parts ...[]byte) error {
	if err := s.conn.SetDeadline(time.Now().Add(s.limit)); err != nil {
		return fmt.Errorf("send device memory ahead: %w", err)
	}
	if err := s.sent.write(s.conn, parts...); err != nil {
		if why := s.answer(0); errors.Is(why, ErrRefused) { // the destination has left
			return why
		}
		return fmt.Errorf("send device memory ahead: %w", err)
	}
	return nil
}

// ErrRefused is wrapped by errors that the destination has told of.
var ErrRefused = errors.New("the other device process refuses")

// Alive says why nothing more can be sent, if that is known without sending.
func (s *Sender) Alive() error {
	if err := s.conn.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return fmt.Errorf("look after the other device process: %w", err)
	}
	var b [1]byte
	switch n, err := s.conn.Read(b[:]); {
	case n == 1: // it has sent why it leaves
		s.early = b[:1]
		return cmp.Or(s.answer(0), wrong("has more than answers"))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	default:
		return fmt.Errorf("look after the other device process: %w", err)
	}
}

// answer reads an answer, which must be of this kind.
func (s *Sender) answer(want uint32) error {
	if err := s.conn.SetDeadline(time.Now().Add(s.limit)); err != nil {
		return fmt.Errorf("await the other device process: %w", err)
	}
	var a answer
	b := encode(&a)
	from := io.MultiReader(bytes.NewReader(s.early), s.conn)
	s.early = nil
	if err := s.got.read(from, b); err != nil {
		return err
	}
	decode(b, &a)
	switch {
	case !bytes.Equal(a.Magic[:], magic[:]) || a.Format != format:
		return wrong("is of another format")
	case a.Text > maxText:
		return wrong("has a text of %d bytes", a.Text)
	}
	text := make([]byte, a.Text)
	if err := s.got.read(s.conn, text); err != nil {
		return err
	}
	switch {
	case a.Kind == refuses:
		return fmt.Errorf("%w: %s", ErrRefused, plain.Text(string(text)))
	case a.Kind != want || a.Session != s.session || a.Sum != uint32(s.sent):
		return wrong("answers something else than what was sent")
	}
	return nil
}
