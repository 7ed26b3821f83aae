// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"errors"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/internal/leaks"
)

// copies note what they are told.
type copies struct {
	reaches, needs bool
	gone           bool
	connected      int
	refused        error
}

func (c *copies) Reaches() bool       { return c.reaches }
func (c *copies) Connect(moves.Mover) { c.connected++ }
func (c *copies) Refused(why error)   { c.refused = why }
func (c *copies) Release(gone bool) bool {
	c.gone = gone
	return !c.needs
}

// way is a Reach to those copies. It notes what it sends, and err is the error of each Dial.
func way(c *copies, err error) (r *Reach, sent *[]handover.Kind) {
	sent = &[]handover.Kind{}
	return &Reach{
		Copies: c, Dial: func(link.Half) (moves.Mover, error) { return nil, err },
		Send: func(m *handover.Message) error {
			*sent = append(*sent, m.Kind)
			return nil
		},
	}, sent
}

// TestTake: an answer brings a connection, or the reason why there is none.
func TestTake(t *testing.T) {
	broken := errors.New("broken")
	c := &copies{}
	r, sent := way(c, nil)
	r.Need()
	if r.Take(&handover.Message{Error: "no GPU"}, link.None); c.refused == nil ||
		c.refused.Error() != "no GPU" {
		t.Errorf("no mover: %v", c.refused)
	}
	r.Take(&handover.Message{}, link.Half{Conn: 1000, Ring: 1001, Wake: 1002})
	if c.connected != 1 {
		t.Errorf("connected %d times", c.connected)
	}
	if !slices.Equal(*sent, []handover.Kind{handover.KindMover}) {
		t.Errorf("sent %v", *sent)
	}
	r, _ = way(c, broken)
	r.Take(&handover.Message{}, link.Half{Conn: 1000, Ring: 1001, Wake: 1002})
	if !errors.Is(c.refused, broken) || c.connected != 1 {
		t.Errorf("a broken connection: %v", c.refused)
	}
}

// TestTakenTwice: a second connection is closed, and one of which something is missing.
func TestTakenTwice(t *testing.T) {
	before := leaks.Descriptors(t)
	for _, whole := range []bool{true, false} {
		mine, its, err := link.New()
		if err != nil {
			t.Fatal(err)
		}
		its.Close()
		if !whole {
			handover.CloseFiles([]int{mine.Ring})
			mine.Ring = -1
		}
		c := &copies{reaches: true}
		r, _ := way(c, nil)
		r.Take(&handover.Message{}, mine)
		if c.connected != 0 || whole != (c.refused == nil) {
			t.Errorf("connected %d times, refused %v", c.connected, c.refused)
		}
	}
	if n := leaks.Descriptors(t); n != before {
		t.Errorf("%d files are open, %d before", n, before)
	}
}

// TestRelease: the device process is told only if nothing needs the mover; the copies are told
// whether the mover is gone.
func TestRelease(t *testing.T) {
	for needs, want := range map[bool]int{true: 0, false: 1} {
		for _, gone := range []bool{false, true} {
			c := &copies{needs: needs}
			r, sent := way(c, nil)
			if err := r.Release(gone); err != nil || len(*sent) != want || c.gone != gone {
				t.Errorf("needed %v: %v, sent %v, gone %v", needs, err, *sent, c.gone)
			}
		}
	}
}
