// SPDX-License-Identifier: Apache-2.0

package dirty

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// patience is how long is waited for what must happen, however busy the machine is.
const patience = time.Minute

// TestHeldPagesAreMarked: when the log comes, again while it is there, and when they go.
func TestHeldPagesAreMarked(t *testing.T) {
	fd := virtqueuetest.MemFD(t, 4096)
	log, err := dirtylog.Open(fd, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	fetch := func() []byte {
		b := make([]byte, 2)
		if _, err := unix.Pread(fd, b, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Pwrite(fd, make([]byte, 2), 0); err != nil {
			t.Fatal(err)
		}
		return b
	}
	turn := func(d *Pages, l *dirtylog.Log) {
		m := &handover.Message{Kind: handover.KindLog}
		file := -1
		if fds := m.GiveLog(l, nil); len(fds) == 1 {
			if file, err = unix.Dup(fds[0]); err != nil {
				t.Fatal(err)
			}
		}
		if a := d.Obey(m, file); a.Kind != handover.KindLogged || a.Error != "" {
			t.Fatalf("answer %+v", a)
		}
	}
	var d Pages
	defer d.Close()
	name := d.Hold([]wire.Run{{Address: 0, Bytes: 4096}, {Address: 3 * 4096, Bytes: 2 * 4096}})
	d.Hold([]wire.Run{{Address: 9 * 4096, Bytes: 4096}})
	if got := fetch(); !bytes.Equal(got, []byte{0, 0}) {
		t.Errorf("marked without a log: %08b", got)
	}
	turn(&d, log)
	all := []byte{0b11001, 0b10}
	if got := fetch(); !bytes.Equal(got, all) {
		t.Errorf("when the log comes: %08b", got)
	}
	end := time.Now().Add(patience)
	for ; !bytes.Equal(fetch(), all); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what the front end has cleared is not marked again")
		}
	}
	d.LetGo(name)
	if got := fetch(); got[0] != all[0] {
		t.Errorf("when they go: %08b", got)
	}
	d.LetGo(0)
	d.MarkHeld()
	if got := fetch(); !bytes.Equal(got, []byte{0, 0b10}) {
		t.Errorf("when they are gone: %08b", got)
	}
	turn(&d, nil)
	fetch()
	d.MarkHeld()
	if got := fetch(); !bytes.Equal(got, []byte{0, 0}) {
		t.Errorf("after the log: %08b", got)
	}
}
