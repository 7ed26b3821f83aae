// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/savedvm"
)

// went is what went ahead: memory of one worker.
type went struct {
	of   *fakeWorker
	over bool
	with uint64
}

func (w *went) Number() uint64      { return 5 }
func (w *went) Has(worker any) bool { return worker == w.of }
func (w *went) Over(with uint64)    { w.over, w.with = true, with }

// TestAhead: a program whose memory went ahead writes what has changed, and goes on with what came
// there; the others write all.
func TestAhead(t *testing.T) {
	v := newVM(t, "a", "", "c")
	w := &went{of: v.workers[2]}
	v.config.Went = func() Ahead { return w }
	stream := v.mustCopy()
	if !w.over || w.with != uint64(len(stream)) || v.workers[2].rest != savedvm.Ahead ||
		v.workers[0].rest != savedvm.Nowhere {
		t.Errorf("over: %t, %d of %d bytes; not written %d, %d", w.over, w.with, len(stream),
			v.workers[0].rest, v.workers[2].rest)
	}
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	there := newVM(t)
	var opened []*os.File
	there.config.Image = func(session uint64, channel int) (*os.File, error) {
		if session != 5 || channel != 2 {
			t.Errorf("asked for channel %d of session %d", channel, session)
		}
		f, err := os.Open(path)
		opened = append(opened, f)
		return f, err
	}
	if err := there.arrives(stream); err != nil {
		t.Fatal(err)
	}
	there.mustRun("0a", "2c")
	if there.workers[2].image != "before" || there.workers[0].image != "" {
		t.Errorf("came ahead: %q, %q", there.workers[0].image, there.workers[2].image)
	}
	if err := opened[0].Close(); !errors.Is(err, os.ErrClosed) {
		t.Error("what came ahead stays open")
	}
	last := v.workers[2]
	last.rest = savedvm.Nowhere
	if v.mustSave(); last.rest != savedvm.Nowhere {
		t.Error("a file has only what has changed")
	}
}

// TestAheadOfAnother: a VM whose memory went elsewhere isn't taken up, and no worker is made.
func TestAheadOfAnother(t *testing.T) {
	v := newVM(t, "a")
	v.config.Went = func() Ahead { return &went{of: v.workers[0]} }
	stream := v.mustCopy()
	there := newVM(t)
	if _, err := there.Arrive(bytes.NewReader(stream)); err == nil {
		t.Error("where nothing ever comes it is taken up")
	}
	there.config.Image = func(uint64, int) (*os.File, error) { return nil, errNo }
	if _, err := there.Arrive(bytes.NewReader(stream)); !errors.Is(err, errNo) {
		t.Errorf("%v", err)
	}
	if len(there.made) > 0 {
		t.Error("a worker is made")
	}
}
