// SPDX-License-Identifier: Apache-2.0

package infile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/roster"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// fake is the rest of a VM, and notes what it is told.
type fake struct {
	file    *saving.InFile
	run     bool // whether all queues of programs in the file do
	status  suspend.Status
	fails   error // of TakeFile
	bad     error // of what descriptors stand for
	used    bool  // a program has a worker
	offered []int // channels in which the driver has made something available
	did     []string
	log     bytes.Buffer
}

func (f *fake) note(format string, a ...any) { f.did = append(f.did, fmt.Sprintf(format, a...)) }

func (f *fake) InFile() *saving.InFile { return f.file }
func (f *fake) TakeUp(x *saving.InFile) {
	f.note("take up %d", x.Sum)
	f.file = x
}
func (f *fake) Has(channel int) bool {
	return f.file != nil && slices.ContainsFunc(f.file.Programs,
		func(p saving.Filed) bool { return p.Channel == channel })
}
func (f *fake) Load(io.ReaderAt, func(suspend.Progress)) (suspend.Moved, error) {
	f.note("load")
	return suspend.Moved{}, errors.New("it is gone")
}
func (f *fake) Len() int { return 4 }
func (f *fake) Standing(channel int) (uint16, []uint16) {
	return uint16(channel) + 10, []uint16{uint16(channel)}
}
func (f *fake) Comes(channel int, base uint16, held []uint16) {
	f.note("channel %d at %d with %v", channel, base, held)
}
func (f *fake) Run() bool                             { return f.run }
func (f *fake) Offered(channel int) bool              { return slices.Contains(f.offered, channel) }
func (f *fake) LeftBy(channel int, _ *handover.State) { f.note("left by %d", channel) }
func (f *fake) TakeFile() error {
	f.note("take file")
	f.status.Saved = f.fails == nil
	return f.fails
}
func (f *fake) Status() suspend.Status { return f.status }

func (f *fake) vm(from *saving.File) *VM {
	log := logrus.New()
	log.SetOutput(&f.log)
	return New(Config{
		Programs: f, Channels: f, Suspension: f, From: from,
		Describe: func(b []byte) error {
			f.note("describe %s", b)
			return f.bad
		},
		Forget: func() { f.note("forget") }, Empty: func() { f.note("empty") },
		Used: func() bool { return f.used }, Goes: func() { f.note("goes") },
		Reclaim: func(channel int) { f.note("reclaim %d", channel) },
		Run:     func(_ string, run func()) { run() }, Log: logrus.NewEntry(log),
	})
}

// filed is a VM with programs in the channels 1 and 3.
func filed() *fake {
	f := &fake{status: suspend.Status{Saved: true}}
	f.file = &saving.InFile{Sum: 7, Programs: []saving.Filed{
		{Channel: 1, PID: 5, Name: "a"}, {Channel: 3, PID: 6, Name: "b", Number: 1},
	}}
	return f
}

// TestMoved: on another device the VM is in the file, too, with its queues where they stood. A
// device that was given another file refuses it, and changes nothing.
func TestMoved(t *testing.T) {
	var b bytes.Buffer
	if err := filed().vm(nil).Save(&b); err != nil {
		t.Fatal(err)
	}
	there := &fake{}
	v := there.vm(&saving.File{Sum: 7})
	if err := v.Take(bytes.NewReader(b.Bytes())); err != nil || !v.Has() {
		t.Fatal(err)
	}
	want := []string{"forget", "empty", "take file", "channel 1 at 11 with [1]",
		"channel 3 at 13 with [3]", "take up 7"}
	if !slices.Equal(there.did, want) {
		t.Errorf("%q", there.did)
	}
	other := &fake{}
	err := other.vm(&saving.File{Sum: 8}).Take(bytes.NewReader(b.Bytes()))
	if !errors.Is(err, savedstate.ErrState) || other.did != nil {
		t.Errorf("%v, %q", err, other.did)
	}
	cut := bytes.NewReader(b.Bytes()[:b.Len()-1])
	if err := other.vm(nil).Take(cut); err == nil || other.did != nil {
		t.Errorf("%v, %q", err, other.did)
	}
	if err := (&fake{}).vm(nil).Save(&b); !errors.Is(err, savedstate.ErrBusy) {
		t.Errorf("save what isn't in a file: %v", err)
	}
}

// TestGoesOnByItself once, when all queues run and the VM is in the file.
func TestGoesOnByItself(t *testing.T) {
	f := filed()
	v := f.vm(&saving.File{Sum: 7})
	v.Started()
	f.status.Saved, f.run = false, true
	v.Started()
	if f.did != nil {
		t.Errorf("%q", f.did)
	}
	f.status.Saved = true
	v.Started()
	v.Started()
	v.Unused()
	if !slices.Equal(f.did, []string{"load"}) || !strings.Contains(f.log.String(), "stays") {
		t.Errorf("%q, the log says %s", f.did, &f.log)
	}
	var later bytes.Buffer
	another := filed()
	another.file.Sum = 9
	if err := another.vm(nil).Save(&later); err != nil {
		t.Fatal(err)
	}
	if err := v.Take(&later); err != nil {
		t.Errorf("suspended to another file since: %v", err)
	}
	f = &fake{run: true}
	v = f.vm(&saving.File{})
	v.Unused()
	v.Unused()
	if n := strings.Count(f.log.String(), "doesn't go on"); n != 1 {
		t.Errorf("said %d times", n)
	}
	f.status.Saved = true
	if v.Started(); f.did != nil {
		t.Errorf("it goes on from a file that isn't its own: %q", f.did)
	}
}

// TestTakenOver: in the next process the VM is still in the file, and workers whose programs are
// there end.
func TestTakenOver(t *testing.T) {
	known := filed().vm(nil).Known()
	left := takeover.Left{}
	for _, channel := range []int{1, 2} {
		near, far, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		conn, err := handover.NewConn(far)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		left.Workers = append(left.Workers,
			takeover.Worker{Child: roster.Child{Channel: channel}, Conn: conn})
	}
	f := &fake{}
	var ended []int
	f.vm(nil).TakeOver(known, &left, func(w takeover.Worker) { ended = append(ended, w.Channel) })
	if !slices.Equal(f.did, []string{"take file", "take up 7", "left by 1"}) ||
		!slices.Equal(ended, []int{1}) || len(left.Rest) != 1 || len(left.Workers) != 1 ||
		left.Workers[0].Channel != 2 {
		t.Errorf("%q, %v ended, %d are left, %d to end", f.did, ended, len(left.Workers),
			len(left.Rest))
	}
	for _, bad := range [][]byte{nil, []byte("{}"), []byte("nothing")} {
		f := &fake{}
		f.vm(nil).TakeOver(bad, &left, func(takeover.Worker) { t.Error("one more ends") })
		if f.did != nil || (bad == nil) != (f.log.Len() == 0) {
			t.Errorf("%q: %q, the log says %s", bad, f.did, &f.log)
		}
	}
	f = &fake{fails: os.ErrInvalid}
	f.vm(nil).TakeOver(known, &left, func(takeover.Worker) { t.Error("one more ends") })
	if !slices.Equal(f.did, []string{"take file"}) || !strings.Contains(f.log.String(), "lost") {
		t.Errorf("%q, the log says %s", f.did, &f.log)
	}
}
