// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/fixed"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// TestRoundTrip: another worker has what the program had, in the order in which each part finds
// what it needs.
func TestRoundTrip(t *testing.T) {
	from := newProgram(t)
	text := from.record(t)
	to := newWorld(t)
	if err := to.Restore(bytes.NewReader(text), nil, false); err != nil {
		t.Fatal(err)
	}
	made := func(kind object.Kind) string { return fmt.Sprintf("make %d", kind) }
	want := []string{
		"layout layout", made(object.Context), "place 0xb0", made(object.Module),
		made(object.Library), "place 0xc0", fmt.Sprintf("load library %d", object.Library),
		made(object.Event), "place 0xd0", made(object.Array), "take 0xa0",
		fmt.Sprintf("times [{%d 3 %d}]", object.Event, object.Context), "layout is right", "fill",
	}
	if !slices.Equal(to.device.did, want) {
		t.Errorf("the device was told\n%q, want\n%q", to.device.did, want)
	}
	for name, x := range map[string][2]any{
		"environment": {to.hello.environment, from.hello.environment},
		"queue":       {to.queue.q.Base, from.queue.q.Base},
		"host funcs":  {to.hostFuncs.seq, from.hostFuncs.seq},
		"virtual":     {to.memory.s, from.memory.s},
		"pools":       {to.pools.s.Defaults, from.pools.s.Defaults},
		"graphs":      {to.graphs.s, from.graphs.s},
		"textures":    {to.textures.s, from.textures.s},
		"pinned":      {to.hostMemory.s.Ranges, from.hostMemory.s.Ranges},
		"commands":    {to.history.executed, from.history.executed},
		"memory":      {to.device.memory, []byte("bytes")},
		"open":        {to.hello.open, true},
	} {
		if !reflect.DeepEqual(x[0], x[1]) {
			t.Errorf("%s: %v, want %v", name, x[0], x[1])
		}
	}
	for _, kind := range programKinds {
		if to.objects.Existing(kind, uint64(kind)) != from.objects.Existing(kind, uint64(kind)) {
			t.Errorf("the object of kind %d has another handle", kind)
		}
	}
}

// TestAhead: what was copied ahead isn't in the record, unless it has changed.
func TestAhead(t *testing.T) {
	const at = 1 << 44
	from := newProgram(t)
	var b bytes.Buffer
	if err := from.Save(&b, savedvm.Ahead); err == nil {
		t.Error("nothing was copied, and is taken for copied")
	}
	for want, changed := range map[string]fakePrecopied{
		"ByXes": {{Address: at, Bytes: 2}, {Address: at + 3, Bytes: 2}},
		"XytXX": {{Address: at + 1, Bytes: 2}},
		"XXXXX": {},
		"bytes": {{Address: at, Bytes: 5}},
	} {
		from.changed = changed
		b.Reset()
		if err := from.Save(&b, savedvm.Ahead); err != nil {
			t.Fatal(err)
		}
		to := newWorld(t)
		if err := to.Restore(bytes.NewReader(b.Bytes()), fakeImage("XXXXX"), false); err != nil {
			t.Fatal(err)
		}
		if !strings.EqualFold(string(to.device.memory), want) {
			t.Errorf("memory has %q, want %q", to.device.memory, want)
		}
		if n := strings.Count(strings.Join(to.device.did, ","), "fill"); n > 2 {
			t.Errorf("memory was filled %d times, want once with what was copied ahead, and once "+
				"with what has changed", n)
		}
		if len(changed) != 1 || changed[0].Bytes != 5 {
			err := newWorld(t).Restore(bytes.NewReader(b.Bytes()), fakeImage(""), false)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("what was copied ahead is gone: %v, want %v", err, io.ErrUnexpectedEOF)
			}
		}
		if newWorld(t).Restore(bytes.NewReader(b.Bytes()), nil, false) == nil {
			t.Errorf("%q is restored without what was copied ahead", want)
		}
	}
	if newWorld(t).Restore(bytes.NewReader(from.record(t)), fakeImage("XXXXX"), false) == nil {
		t.Error("memory that was copied ahead is given to a record that has all")
	}
	for _, changed := range []fakePrecopied{
		{{Address: at + 3, Bytes: 2}, {Address: at, Bytes: 2}},
		{{Address: at, Bytes: 2}, {Address: at + 1, Bytes: 1}},
		{{Address: at + 4, Bytes: 1}, {Address: at + 4, Bytes: 1}},
	} {
		from.changed = changed
		b.Reset()
		if err := from.Save(&b, savedvm.Ahead); err != nil {
			t.Fatal(err)
		}
		err := newWorld(t).Restore(bytes.NewReader(b.Bytes()), fakeImage("XXXXX"), false)
		if !errors.Is(err, saved.ErrRecord) {
			t.Errorf("changed is %v: %v", changed, err)
		}
	}
}

// TestInFile: what the file has, and hasn't changed, is named and not written, unless memory is
// out, where it isn't compared; a worker that is made of a record in a file notes what that has.
func TestInFile(t *testing.T) {
	const at = 1 << 44
	from := newProgram(t)
	from.filed.runs = []savedvm.SameRun{{Same: 2, From: 7, Own: 1}, {Same: 2, From: 100}}
	from.filed.rest = []gpubackend.Piece{{Address: at + 2, Bytes: 1}}
	if err := from.Save(io.Discard, savedvm.Early); err == nil {
		t.Error("nothing was written early, and is taken for written")
	}
	from.changed = fakePrecopied{{Address: at + 1, Bytes: 2}}
	early := []savedvm.SameRun{{Same: 3, From: 7, Own: 2}}
	for _, x := range []struct {
		out          uint64
		rest         savedvm.Rest
		same, memory string
	}{
		{0, savedvm.Filed, string(savedvm.EncodeRuns(from.filed.runs)), "t"},
		{0, savedvm.Nowhere, "", "bytes"},
		{5, savedvm.Filed, "", "bytes"},
		{0, savedvm.Early, string(savedvm.EncodeRuns(early)), "yt"},
		{5, savedvm.Early, "", "bytes"},
	} {
		from.onDevice.out = x.out
		var b bytes.Buffer
		if err := from.Save(&b, x.rest); err != nil {
			t.Fatal(err)
		}
		text := bytes.Clone(b.Bytes())
		got := map[string]string{}
		rewritten(t, text, func(name string, b []byte) []byte { got[name] = string(b); return b })
		if got[savedvm.SameName] != x.same || got[savedvm.MemoryName] != x.memory {
			t.Errorf("%+v: same %q, memory %q", x, got[savedvm.SameName], got[savedvm.MemoryName])
		}
		to := newWorld(t)
		err := to.Restore(bytes.NewReader(text), nil, true)
		if x.same != "" {
			if err == nil {
				t.Error("a worker goes on from a part of its memory")
			}
			continue
		}
		if err != nil || !slices.Equal(to.filed.noted, from.onDevice.list) {
			t.Errorf("%v are noted, %v", to.filed.noted, err)
		}
		to = newWorld(t)
		err = to.Restore(bytes.NewReader(text), nil, false)
		if err != nil || to.filed.noted != nil {
			t.Errorf("%v are noted of a stream, %v", to.filed.noted, err)
		}
	}
}

// passing are reasons of TestUnsavable that aren't told while the program runs: they may pass. So
// does that of a context, which isn't asked then.
var passing = []string{"not begun", "waiting call", "function", "copy", "kernel", "failed", "lost"}

// TestUnsavable: each reason is told, and nothing is written then.
func TestUnsavable(t *testing.T) {
	some := errors.New("some reason")
	for name, x := range map[string]struct {
		do   func(*world)
		want string
	}{
		"device": {func(w *world) {
			w.device.unsaved, w.device.unsavable = true, "some kind"
		}, "some kind"},
		"device now":   {func(w *world) { w.device.unsavable = "is managed" }, "is managed"},
		"history":      {func(w *world) { w.history.refused = some }, "some reason"},
		"what it has":  {func(w *world) { w.objects.Add(object.Link, 1, 0) }, "linkers"},
		"not begun":    {func(w *world) { w.hello.open = false }, "hasn't begun"},
		"waiting call": {func(w *world) { w.waits = some }, "some reason"},
		"function":     {func(w *world) { w.hostFuncs.waits = true }, "host function"},
		"copy":         {func(w *world) { w.queue.used = true }, "busy: "},
		"kernel":       {func(w *world) { w.device.query = gpubackend.NotReady }, "busy: "},
		"failed":       {func(w *world) { w.device.query = gpubackend.Unknown }, "failed"},
		"lost":         {func(w *world) { w.contexts.gone = true }, "failed"},
		"graph":        {func(w *world) { w.graphs.err = some }, "some reason"},
		"texture":      {func(w *world) { w.textures.err = some }, "some reason"},
		"code": {func(w *world) {
			w.history.executed[1] = journal.Executed{Op: uint16(gpubackend.OpModuleLoadData),
				Words: []uint64{uint64(wire.BufferInline)<<56 | wire.CommandSize, 3,
					0, 0, 0, 0, 0, 0}, // neither options nor logs
				Body: []byte("bad"), Made: w.history.executed[1].Made}
		}, "bad code"},
	} {
		w := newProgram(t)
		if err := w.Unsavable(); err != nil {
			t.Fatal(err)
		}
		x.do(w)
		passes := slices.Contains(passing, name)
		if err := cmp.Or(w.Counted(), w.Found()); (err == nil) != passes || err != nil &&
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: while the program runs: %v", name, err)
		}
		var b bytes.Buffer
		for _, err := range []error{w.Unsavable(), w.Save(&b, savedvm.Nowhere)} {
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if b.Len() > 0 {
			t.Errorf("%s: %d bytes were written", name, b.Len())
		}
	}
}

// TestFixed counts what no record holds.
func TestFixed(t *testing.T) {
	w := newProgram(t)
	if c := w.Fixed(); c != (fixed.Counts{}) {
		t.Fatalf("%v", c.Map())
	}
	w.device.fixed, w.textures.fixed = 2, 3
	w.pools.offered, w.memory.shared, w.hostMemory.shown = 5, 6, 8
	w.objects.Add(object.GreenContext, 1, 0)
	w.objects.Add(object.TextureReference, 1, 0)
	w.objects.Add(object.SurfaceReference, 1, 0)
	want := fixed.Counts{
		fixed.Graphs: 2, fixed.Textures: 3, fixed.SharedMemory: 6,
		fixed.ShownMemory:   8,
		fixed.GreenContexts: 1, fixed.References: 2,
	}
	if c := w.Fixed(); c != want {
		t.Errorf("%v, want %v", c.Map(), want.Map())
	}
	w.device.fixed, w.device.unsaved, w.History = -1, true, nil
	w.objects.Add(object.Graph, 1, 0)
	w.objects.Add(object.GraphExec, 1, 0)
	for _, kind := range []fixed.Kind{fixed.Graphs, fixed.GraphExecs, fixed.Arrays,
		fixed.Commands} {
		want[kind] = 1
	}
	if c := w.Fixed(); c != want {
		t.Errorf("%v, want %v", c.Map(), want.Map())
	}
}

// rewritten is a record whose sections f has changed.
func rewritten(t *testing.T, text []byte, f func(name string, b []byte) []byte) []byte {
	t.Helper()
	r, err := record.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := record.NewWriter(&b, record.Header{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, x []byte) {
		err := w.Begin(record.Section{Program: 1, Name: name, Bytes: uint64(len(x))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(x); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{savedvm.StateName, savedvm.ObjectsName, savedvm.JournalName,
		savedvm.LayoutName, savedvm.SameName, savedvm.MemoryName} {
		x, err := savedvm.ReadAll(r, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		write(name, f(name, x))
	}
	if x := f("", nil); x != nil {
		write("more", x)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// state is a change of the state in a record.
func state(t *testing.T, f func(*saved.State)) func(string, []byte) []byte {
	return func(name string, b []byte) []byte {
		if name != savedvm.StateName {
			return b
		}
		x, err := saved.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		f(x)
		if b, err = x.Encode(); err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// TestRefusedRecords: a record that doesn't suit is refused, and says why.
func TestRefusedRecords(t *testing.T) {
	text := newProgram(t).record(t)
	for name, change := range map[string]func(string, []byte) []byte{
		"other GPUs": state(t, func(x *saved.State) { x.Inventory = []byte("one GPU") }),
		"an event that is none": state(t, func(x *saved.State) {
			x.Events = []saved.EventTime{{Event: 0x123}}
		}),
		"an event in no context": state(t, func(x *saved.State) { x.Events[0].Context = 0x123 }),
		"another size of memory": state(t, func(x *saved.State) { x.Pieces[0].Bytes++ }),
		"something behind it": func(name string, b []byte) []byte {
			if name == "" {
				return []byte("x")
			}
			return b
		},
	} {
		err := newWorld(t).Restore(bytes.NewReader(rewritten(t, text, change)), nil, false)
		if !errors.Is(err, saved.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same := rewritten(t, text, func(_ string, b []byte) []byte { return b })
	if err := newWorld(t).Restore(bytes.NewReader(same), nil, false); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	for i := range len(text) {
		if err := newWorld(t).Restore(bytes.NewReader(text[:i]), nil, false); err == nil {
			t.Fatalf("%d of %d bytes: no error", i, len(text))
		}
	}
	less := state(t, func(x *saved.State) { x.Events = nil })
	lost := rewritten(t, text, func(name string, b []byte) []byte {
		if name == savedvm.JournalName {
			return nil
		}
		return less(name, b)
	})
	err := newWorld(t).Restore(bytes.NewReader(lost), nil, false)
	if !errors.Is(err, object.ErrSaved) {
		t.Errorf("without its commands: %v", err)
	}
}

// TestRestoringFails: what goes wrong in a part ends it.
func TestRestoringFails(t *testing.T) {
	text := newProgram(t).record(t)
	some := errors.New("some reason")
	for name, do := range map[string]func(*world){
		"device":      func(w *world) { w.device.unsaved = true },
		"queue":       func(w *world) { w.queue.err = some },
		"textures":    func(w *world) { w.textures.err = some },
		"graphs":      func(w *world) { w.graphs.err = some },
		"contexts":    func(w *world) { w.contexts.gone = true },
		"layout":      func(w *world) { w.device.fails = "layout is" },
		"code":        func(w *world) { w.device.fails = "load" },
		"place":       func(w *world) { w.device.fails = "place" },
		"allocation":  func(w *world) { w.device.fails = "take" },
		"event times": func(w *world) { w.device.fails = "times" },
		"memory":      func(w *world) { w.device.fails = "fill" },
	} {
		w := newWorld(t)
		do(w)
		if err := w.Restore(bytes.NewReader(text), nil, false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPlacesOfCode: a library with the same variables in all contexts has its place when it is
// loaded, another one when there are both library and context.
func TestPlacesOfCode(t *testing.T) {
	x := &saved.State{Codes: []saved.Code{
		{Address: 10, Library: 1}, {Address: 20, Library: 2, Context: 3},
		{Address: 40, Module: 4, Context: 3},
	}}
	if places := placesOf(x); !maps.Equal(places, map[uint64]uint64{1: 10, 4: 40}) {
		t.Errorf("places %v", places)
	}
	codes := codesOf(x.Codes)
	if len(codes) != 2 || len(codes[2]) != 1 || len(codes[3]) != 1 || codes[3][0].Address != 20 {
		t.Errorf("codes %v", codes)
	}
}
