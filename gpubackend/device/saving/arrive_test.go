// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// mustCopy is the stream of a VM, which runs on.
func (v *fakeVM) mustCopy() []byte {
	v.t.Helper()
	var b bytes.Buffer
	before := v.texts()
	if err := v.Copy(&b); err != nil {
		v.t.Fatal(err)
	}
	v.mustRun(before...)
	if s := v.suspension.State(); s != suspend.Running {
		v.t.Fatalf("the VM is %s", s)
	}
	return b.Bytes()
}

// arrives has a VM take up a stream.
func (v *fakeVM) arrives(stream []byte) error {
	a, err := v.Arrive(bytes.NewReader(stream))
	if err != nil {
		return err
	}
	return a.Take()
}

// TestCopyArrives: another VM has the programs in the same channels, and the first one still has
// them.
func TestCopyArrives(t *testing.T) {
	v := newVM(t, "a", "", "c")
	for range 3 {
		stream, other := v.mustCopy(), newVM(t)
		if err := other.arrives(stream); err != nil {
			t.Fatal(err)
		}
		other.mustRun("0a", "2c")
		if got := other.savedChannels(); got != nil {
			t.Fatalf("channels %v are saved", got)
		}
		v = other
	}
	none := newVM(t)
	if err := none.arrives(newVM(t).mustCopy()); err != nil {
		t.Fatal(err)
	}
	none.mustRun()
}

// TestCopyFails: the programs go on, whatever makes the copy fail.
func TestCopyFails(t *testing.T) {
	v := newVM(t, "a", "b")
	mustNot := func(want string) {
		t.Helper()
		err := v.Copy(io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) ||
			v.suspension.State() != suspend.Running {
			t.Fatalf("%v, want %q; the VM is %s", err, want, v.suspension.State())
		}
		v.mustRun("0a", "1b")
	}
	v.workers[1].fails = errNo
	mustNot("no")
	v.workers[1].fails = nil
	late, hold := v.workers[1], v.suspension.Hold
	v.suspension.Hold = func() []suspend.Worker { // one begins when the others are drained
		v.mu.Lock()
		v.workers[1] = nil
		v.mu.Unlock()
		list := hold()
		v.mu.Lock()
		v.workers[1] = late
		v.mu.Unlock()
		return list
	}
	mustNot("b (pid 11) begins just now")
	v.suspension.Hold = hold
	if err := v.Copy(&limited{1000}); !errors.Is(err, errNo) {
		t.Fatalf("a stream that ends: %v", err)
	}
	v.mustCopy()
}

// limited is a writer that takes so many bytes.
type limited struct{ left int }

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, errNo
	}
	return len(b), nil
}

// programs is a stream that lists these programs, and has nothing of them.
func programs(t *testing.T, list []savedvm.Program) []byte {
	t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return stream(t, text, nil)
}

// stream is a stream whose sums are right. It has a list of programs, and for each text the
// sections of a program, which have that text.
func stream(t *testing.T, list []byte, texts [][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter(&b, record.Header{GPU: "soft", Version: "1"})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	section := func(program int, name string, text []byte) {
		must(w.Begin(record.Section{Program: uint32(program), Name: name,
			Bytes: uint64(len(text))}))
		_, err := w.Write(text)
		must(err)
	}
	section(0, savedvm.ProgramsName, list)
	for i, text := range texts {
		for _, name := range []string{savedvm.StateName, savedvm.ObjectsName,
			savedvm.JournalName, savedvm.LayoutName, savedvm.SameName, savedvm.MemoryName} {
			if name == savedvm.SameName {
				section(1+i, name, nil)
				continue
			}
			section(1+i, name, text)
		}
	}
	must(w.End())
	return b.Bytes()
}

// TestStrangeArrivals are refused, those of another version before anything is made, and nothing
// stays that was made.
func TestStrangeArrivals(t *testing.T) {
	good := newVM(t, "a", "b", "c").mustCopy()
	for name, list := range map[string][]savedvm.Program{
		"a channel that isn't there": {{Channel: 3}},
		"one before the first":       {{Channel: -1}},
		"one twice":                  {{Channel: 1}, {Channel: 1}},
		"a long name":                {{Name: strings.Repeat("x", maxName+1)}},
	} {
		if _, err := newVM(t).Arrive(bytes.NewReader(programs(t, list))); !errors.Is(err,
			savedvm.ErrSaved) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := newVM(t).arrives(programs(t, []savedvm.Program{{Channel: 1}})); err == nil {
		t.Error("a program that isn't there has come")
	}
	for i := range len(good) {
		v := newVM(t)
		if err := v.arrives(good[:i]); err == nil {
			t.Fatalf("%d of %d bytes have come", i, len(good))
		}
		v.mustRun()
	}
	for _, build := range []string{"2", ""} {
		v := newVM(t)
		v.config.Build = build
		if _, err := v.Arrive(bytes.NewReader(good)); err == nil ||
			!strings.Contains(err.Error(), "version") {
			t.Errorf("version %q: %v", build, err)
		}
	}
	for _, why := range []error{errNo, errPanics} {
		v := newVM(t)
		v.fails["b"] = why
		if err := v.arrives(good); err == nil {
			t.Fatal("one couldn't begin, and nobody says so")
		}
		v.mustRun()
		if len(v.made) != 1 {
			t.Errorf("%d were made", len(v.made))
		}
	}
}

// FuzzArrival: either all programs run that a stream says it has, or none. Input that doesn't begin
// as a stream is made one whose sums are right: a list of programs, and the text of each, with "|"
// between them.
func FuzzArrival(f *testing.F) {
	good := newVM(f, "a", "", "c").mustCopy()
	for _, b := range [][]byte{good, good[:len(good)/2], newVM(f).mustCopy(),
		[]byte(`[{"Channel":1,"Bytes":4096,"Name":"b"}]|b`),
		[]byte(`[{"Channel":2,"Bytes":4096},{"Channel":0,"Bytes":4096}]|c|a`),
		[]byte(`[{"Channel":2},{}]|c|a`), []byte(`[]|a`), []byte("{|"),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !bytes.HasPrefix(b, good[:8]) {
			parts := bytes.Split(b, []byte("|"))
			if len(parts) > 9 || len(b) > 1<<16 {
				return
			}
			b = stream(t, parts[0], parts[1:])
		}
		v := newVM(t)
		a, err := v.Arrive(bytes.NewReader(b))
		if err == nil {
			err = a.Take()
		}
		want := 0
		if err == nil {
			want = len(a.record.Programs)
		}
		if got := len(v.serving()); got != want {
			t.Errorf("%d programs run, not %d; %v", got, want, err)
		}
	})
}
