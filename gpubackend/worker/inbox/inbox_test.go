// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// conn has messages to be received, and those that were sent.
type conn struct {
	in   []handover.Kind
	sent []handover.Kind
	err  error // of Send
}

func (c *conn) Receive() (*handover.Message, []int, error) {
	if len(c.in) == 0 {
		return nil, nil, io.EOF
	}
	m := &handover.Message{Kind: c.in[0]}
	c.in = c.in[1:]
	return m, []int{7}, nil
}

// read reads to the end. Only KindSync is answered at once.
func read(c *conn, early ...handover.Kind) (got []Received, woken int) {
	to := make(chan Received)
	woke := make(chan struct{}, 16)
	i := &Inbox{Conn: c, To: to, Wake: func() { woke <- struct{}{} },
		AtOnce: func(m *handover.Message, _ []int) (bool, error) {
			if m.Kind != handover.KindSync {
				return false, nil
			}
			c.sent = append(c.sent, handover.KindSynced)
			return true, c.err
		}}
	for _, k := range early {
		i.Early = append(i.Early, Received{&handover.Message{Kind: k}, nil, nil})
	}
	i.Read() // nobody takes anything meanwhile
	for len(got) == 0 || got[len(got)-1].Err == nil {
		got = append(got, <-to)
		<-woke
	}
	return got, len(got)
}

// TestRead: the loop gets the messages in their order, except those that are answered at once, and
// then the end of the connection.
func TestRead(t *testing.T) {
	c := &conn{in: []handover.Kind{handover.KindSync, handover.KindPause, handover.KindSync,
		handover.KindResume}}
	got, woken := read(c)
	if len(got) != 3 || woken != 3 || got[0].Message.Kind != handover.KindPause ||
		got[1].Message.Kind != handover.KindResume || !slices.Equal(got[1].Files, []int{7}) ||
		!errors.Is(got[2].Err, io.EOF) {
		t.Errorf("%+v, woken %d times", got, woken)
	}
	if !slices.Equal(c.sent, []handover.Kind{handover.KindSynced, handover.KindSynced}) {
		t.Errorf("sent %v", c.sent)
	}
}

// TestAnswerThatFails ends the reading.
func TestAnswerThatFails(t *testing.T) {
	c := &conn{in: []handover.Kind{handover.KindSync, handover.KindPause}, err: io.ErrClosedPipe}
	if got, _ := read(c); len(got) != 1 || !errors.Is(got[0].Err, io.ErrClosedPipe) {
		t.Errorf("%+v", got)
	}
}

// TestEarly: what was received before comes first, and is answered at once, too.
func TestEarly(t *testing.T) {
	c := &conn{in: []handover.Kind{handover.KindResume}}
	got, _ := read(c, handover.KindPause, handover.KindSync)
	if len(got) != 3 || got[0].Message.Kind != handover.KindPause ||
		got[1].Message.Kind != handover.KindResume || len(c.sent) != 1 {
		t.Errorf("%+v, sent %q", got, c.sent)
	}
	c = &conn{err: io.ErrClosedPipe, in: []handover.Kind{handover.KindResume}}
	if got, _ = read(c, handover.KindSync, handover.KindPause); len(got) != 1 ||
		!errors.Is(got[0].Err, io.ErrClosedPipe) {
		t.Errorf("%+v of a connection that has ended", got)
	}
}
