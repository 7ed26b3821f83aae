// SPDX-License-Identifier: Apache-2.0

package savedstate

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// fake is a VM that does what the test says, and notes what it is told.
type fake struct {
	settings    wire.Settings
	generation  uint32
	vouchers    uint64
	taken       uint64 // where the driver vouched for pages when programs were taken
	greeted     bool
	serves      bool
	runs        bool
	unanswered  bool
	descriptors int
	releases    int    // descriptors of which calls end meanwhile
	objects     []byte // what handles stand for
	loads       error
	suspension  suspend.State
	stays       error
	copies      error  // what Copy says after half of its programs
	programs    string // what was saved of them
	arrives     error
	takes       error
	file        string // that its programs are in; "": none
	did         []string
}

func (f *fake) note(what string) { f.did = append(f.did, what) }

func (f *fake) Runs() bool           { return f.runs }
func (f *fake) Unanswered() bool     { return f.unanswered }
func (f *fake) Generation() uint32   { return f.generation }
func (f *fake) GoOnAs(n uint32)      { f.generation = n }
func (f *fake) Vouchers() uint64     { return f.vouchers }
func (f *fake) SetVouchers(a uint64) { f.vouchers = a }
func (f *fake) Greeted() bool        { return f.greeted }
func (f *fake) Expect(greeted bool)  { f.greeted = greeted }
func (f *fake) Told() *wire.Settings { return &f.settings }
func (f *fake) Follow(n uint32)      { f.settings.Sequence = n + 1 }
func (f *fake) Has() bool            { return f.file != "" }
func (f *fake) Unused()              { f.note("unused") }

func (f *fake) Save(w io.Writer) error {
	_, err := io.WriteString(w, f.file)
	return err
}

func (f *fake) Take(r io.Reader) error {
	f.note("take file")
	b, err := io.ReadAll(r)
	f.file = string(b)
	return err
}

func (f *fake) State() []byte { return f.objects }
func (f *fake) Load(state []byte) error {
	f.note("load")
	f.objects = state
	return f.loads
}

func (f *fake) copy(w io.Writer) error {
	if _, err := io.WriteString(w, f.programs); err != nil {
		return err
	}
	f.descriptors += f.releases
	return f.copies
}

func (f *fake) arrive(r io.Reader) (func() error, error) {
	f.note("arrive")
	if f.arrives != nil {
		return nil, f.arrives
	}
	return func() error {
		f.note("take")
		b := make([]byte, len("programs"))
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		f.programs, f.taken = string(b), f.vouchers
		return f.takes
	}, nil
}

func (f *fake) vm() *VM {
	return Of(Config{
		Version: 3, Control: f, Greeting: f, Settings: f,
		Stays:       func() error { return f.stays },
		Serves:      func() bool { return f.serves },
		Descriptors: func() int { return f.descriptors }, Objects: f,
		Suspension: func() suspend.State { return f.suspension },
		Copy:       f.copy, Arrive: f.arrive, File: f,
		Forget:  func() { f.note("forget") },
		Greeted: func() { f.note("greeted") },
	})
}

// someObjects is what a handle of a pool stands for.
func someObjects() []byte {
	var w exports.Worker
	e := exports.New(1 << 10)
	e.Receive(&w, &handover.Message{
		Object: &handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 5},
	}, nil)
	e.Claim(&w, 3, 0)
	return e.State()
}

// TestDamagedObjects leave the device as it is.
func TestDamagedObjects(t *testing.T) {
	var saved bytes.Buffer
	from := newFake("programs")
	from.objects = someObjects()
	if err := from.vm().Save(&saved); err != nil {
		t.Fatal(err)
	}
	n := len(from.objects)
	other := bytes.Clone(from.objects)
	other[0]++ // another version
	another := newFake("programs")
	another.objects = other
	var strange bytes.Buffer
	if err := another.vm().Save(&strange); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		b   []byte
		err error
	}{
		"cut":      {saved.Bytes()[:Bytes+n/2], ErrState},
		"no sum":   {saved.Bytes()[:Bytes+n], ErrState},
		"no state": {strange.Bytes(), exports.ErrState},
	} {
		f := newFake("")
		if err := f.vm().Load(bytes.NewReader(x.b)); !errors.Is(err, x.err) || f.did != nil {
			t.Errorf("%s: %v, it did %q", name, err, f.did)
		}
	}
	for i := range n + 4 {
		b := bytes.Clone(saved.Bytes())
		b[Bytes+i] ^= 1
		f := newFake("")
		if err := f.vm().Load(bytes.NewReader(b)); !errors.Is(err, ErrState) || f.did != nil {
			t.Errorf("byte %d is another: %v, it did %q", i, err, f.did)
		}
	}
	s := from.vm().State()
	s.Objects = 5
	if _, err := s.ReadObjects(strings.NewReader("12345sums"), 4); !errors.Is(err, ErrState) {
		t.Errorf("more than there may be: %v", err)
	}
	s.Programs = None
	b := append(EncodeObjects([]byte("12345")), 0)
	if _, err := s.ReadObjects(bytes.NewReader(b), 5); !errors.Is(err, ErrState) {
		t.Errorf("a byte behind it: %v", err)
	}
	if b, err := s.ReadObjects(bytes.NewReader(b[:9]), 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
}

// newFake is a VM with a driver, and a program if there are any.
func newFake(programs string) *fake {
	return &fake{
		settings:   wire.Settings{Channels: 16, ArenaBytes: 8 << 20, Sequence: 5},
		generation: 7, vouchers: 1 << 33, greeted: true, serves: programs != "", programs: programs,
		suspension: suspend.Running,
	}
}

// TestVMGoesOn in another device, which tells its driver what this one told, and of settings that
// it doesn't have.
func TestVMGoesOn(t *testing.T) {
	for programs, want := range map[string][]string{
		"":         {"forget", "unused", "load", "greeted"},
		"programs": {"arrive", "forget", "load", "take", "unused", "greeted"},
	} {
		var b bytes.Buffer
		from := newFake(programs)
		from.objects = someObjects()
		if err := from.vm().Save(&b); err != nil {
			t.Fatal(err)
		}
		there := newFake("")
		there.generation, there.greeted, there.settings.Sequence = 9, false, 1
		there.vouchers = 1
		if err := there.vm().Load(&b); err != nil {
			t.Fatalf("%q: %v", programs, err)
		}
		if there.generation != 7 || !there.greeted || there.settings.Sequence != 6 ||
			there.programs != programs || there.vouchers != 1<<33 ||
			programs != "" && there.taken != 1<<33 ||
			!bytes.Equal(there.objects, from.objects) || !slices.Equal(there.did, want) {
			t.Errorf("%q: %+v", programs, there)
		}
	}
}

// TestVMInAFile takes along what must be known of that, to a device that may be suspended itself.
func TestVMInAFile(t *testing.T) {
	from, there := newFake(""), newFake("")
	from.file, from.suspension, from.objects = "the file", suspend.Suspended, someObjects()
	var b bytes.Buffer
	if err := from.vm().Save(&b); err != nil {
		t.Fatal(err)
	}
	there.suspension = suspend.Suspended
	err := there.vm().Load(&b)
	if err != nil || there.file != "the file" || !bytes.Equal(there.objects, from.objects) ||
		!slices.Equal(there.did, []string{"take file", "load", "greeted"}) {
		t.Errorf("%v, %+v", err, there)
	}
}

// TestVMWithoutDriver: nobody is said to have greeted.
func TestVMWithoutDriver(t *testing.T) {
	from, there := newFake(""), newFake("")
	from.greeted = false
	var b bytes.Buffer
	if err := from.vm().Save(&b); err != nil {
		t.Fatal(err)
	}
	err := there.vm().Load(&b)
	if err != nil || there.greeted || !slices.Equal(there.did,
		[]string{"forget", "unused", "load"}) {
		t.Errorf("%v, %+v", err, there)
	}
}

// TestWhatKeepsAVM from being saved is said before anything is written.
func TestWhatKeepsAVM(t *testing.T) {
	for says, change := range map[string]func(*fake){
		"it has a linker":     func(f *fake) { f.stays = errors.New("it has a linker") },
		"hold descriptors":    func(f *fake) { f.descriptors = 1 },
		"have released it":    func(f *fake) { f.releases = 1 },
		"isn't answered":      func(f *fake) { f.unanswered = true },
		"it is suspended":     func(f *fake) { f.suspension = suspend.Suspended },
		"a program has begun": func(f *fake) { f.copies = errors.New("a program has begun") },
	} {
		f := newFake("programs")
		change(f)
		var b bytes.Buffer
		err := f.vm().Save(&b)
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if f.copies == nil && f.releases == 0 && b.Len() > 0 {
			t.Errorf("%q: %d bytes are written", says, b.Len())
		}
	}
	f := newFake("")
	f.suspension = suspend.Suspended // of which there is nothing
	if err := f.vm().Stays(); err != nil {
		t.Error(err)
	}
}

// TestWhatIsRefused leaves the device as it is, or without a program if it is seen late.
func TestWhatIsRefused(t *testing.T) {
	var saved bytes.Buffer
	if err := newFake("programs").vm().Save(&saved); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("damaged")
	for name, x := range map[string]struct {
		change func(*fake)
		behind string
		err    error
		did    []string
	}{
		"serves":    {func(f *fake) { f.runs = true }, "", ErrState, nil},
		"suspended": {func(f *fake) { f.suspension = suspend.Suspended }, "", ErrState, nil},
		"smaller":   {func(f *fake) { f.settings.Channels = 15 }, "", ErrState, nil},
		"head": {func(f *fake) { f.arrives = bad }, "", bad,
			[]string{"arrive", "unused"}},
		"middle": {func(f *fake) { f.takes = bad }, "", bad,
			[]string{"arrive", "forget", "load", "take", "forget", "unused"}},
		"handles": {func(f *fake) { f.loads = bad }, "", bad,
			[]string{"arrive", "forget", "load", "forget", "unused"}},
		"more": {func(*fake) {}, "+", ErrState,
			[]string{"arrive", "forget", "load", "take", "forget", "unused"}},
	} {
		f := newFake("")
		x.change(f)
		f.greeted, f.generation = false, 1
		err := f.vm().Load(io.MultiReader(bytes.NewReader(saved.Bytes()),
			strings.NewReader(x.behind)))
		if !errors.Is(err, x.err) || !slices.Equal(f.did, x.did) || f.greeted ||
			f.generation != 1 {
			t.Errorf("%s: %v, %+v", name, err, f)
		}
	}
}

// brokenWriter takes so many bytes.
type brokenWriter struct{ left int }

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	if w.left -= n; n < len(b) {
		return n, errBroken
	}
	return n, nil
}

// TestBrokenStream: that a stream breaks is said, wherever it does.
func TestBrokenStream(t *testing.T) {
	for _, n := range []int{0, Bytes - 1, Bytes, Bytes + 3} {
		if err := newFake("programs").vm().Save(&brokenWriter{n}); !errors.Is(err, errBroken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}
