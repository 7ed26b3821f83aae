// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/gpubackend/worker/sharing"
)

// TestFailed: a program that has failed is saved as its error, whether it was told or not, and
// whatever it had; from the worker that is made of that it is saved again. The device is told
// nothing.
func TestFailed(t *testing.T) {
	from := newProgram(t)
	from.device.query, from.device.unsavable = gpubackend.Assert, "is managed"
	for round, rest := range []savedvm.Rest{savedvm.Nowhere, savedvm.Ahead, savedvm.Filed,
		savedvm.Early} {
		from.device.did = nil
		if err := from.Unsavable(); err != nil {
			t.Fatal(round, err)
		}
		var b bytes.Buffer
		if err := from.Save(&b, rest); err != nil {
			t.Fatal(round, err)
		}
		to := newWorld(t)
		var ahead Image
		if rest == savedvm.Ahead {
			ahead = fakeImage("XXXXX")
		}
		if err := to.Restore(&b, ahead, rest == savedvm.Filed); err != nil {
			t.Fatal(round, err)
		}
		if len(from.device.did)+len(to.device.did) > 0 || to.told != gpubackend.Assert ||
			to.device.memory != nil {
			t.Fatalf("round %d: %v; the device was told %q", round, to.told, to.device.did)
		}
		for name, x := range map[string][2]any{
			"environment": {to.hello.environment, from.hello.environment},
			"queue":       {to.queue.q.Base, from.queue.q.Base},
			"host funcs":  {to.hostFuncs.seq, from.hostFuncs.seq},
			"pinned":      {to.hostMemory.s.Ranges, from.hostMemory.s.Ranges},
		} {
			if !reflect.DeepEqual(x[0], x[1]) {
				t.Errorf("round %d: %s: %v, want %v", round, name, x[0], x[1])
			}
		}
		from = to
	}
}

// TestFailedUnsavable: what others use keeps a program that has failed where it is, and so does
// what is under way. What only the program could use doesn't.
func TestFailedUnsavable(t *testing.T) {
	some := errors.New("some reason")
	for name, x := range map[string]struct {
		do   func(*world)
		want string
	}{
		"memory": {func(w *world) { w.sharing.s.Memory = make([]sharing.SavedShare, 1) },
			"shared_memory"},
		"events": {func(w *world) { w.sharing.s.Events = make([]sharing.SavedShare, 1) },
			"shared_events"},
		"memory of others": {func(w *world) { w.sharing.lacks = some }, ""},
		"pools":            {func(w *world) { w.pools.offered = 1 }, "shared_memory"},
		"pools of others":  {func(w *world) { w.pools.lacks = some }, ""},
		"shown":            {func(w *world) { w.hostMemory.shown = 1 }, "shown_memory"},
		"import":           {func(w *world) { w.imports.lacks = some }, ""},
		"waiting call":     {func(w *world) { w.waits = some }, "some reason"},
		"function":         {func(w *world) { w.hostFuncs.waits = true }, "host function"},
		"copy":             {func(w *world) { w.queue.used = true }, "busy: "},
		"kernel":           {func(w *world) { w.device.query = gpubackend.NotReady }, "busy: "},

		"device":  {func(w *world) { w.device.unsavable = "is managed" }, ""},
		"history": {func(w *world) { w.history.refused = some }, ""},
		"linkers": {func(w *world) { w.objects.Add(object.Link, 1, 0) }, ""},
		"graph":   {func(w *world) { w.graphs.err = some }, ""},
		"texture": {func(w *world) { w.textures.err = some }, ""},
		"lost":    {func(w *world) { w.contexts.gone = true }, ""},
	} {
		w := newProgram(t)
		w.told = gpubackend.IllegalAddress
		x.do(w)
		if err := w.Unsavable(); (err == nil) != (x.want == "") ||
			err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
		if err := errors.Join(w.Counted(), w.Found()); x.want == "" && err != nil {
			t.Errorf("%s: while the program runs: %v", name, err)
		}
	}
}

// TestStrangeFailures: no context fails with any error, and a program that has failed has nothing.
func TestStrangeFailures(t *testing.T) {
	from := newProgram(t)
	from.told = gpubackend.IllegalAddress
	var b bytes.Buffer
	if err := from.Save(&b, savedvm.Nowhere); err != nil {
		t.Fatal(err)
	}
	r, err := record.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	text, err := savedvm.ReadAll(r, savedvm.StateName, savedvm.MaxState)
	if err != nil {
		t.Fatal(err)
	}
	x, err := saved.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	try := func(why gpubackend.Result, full string) error {
		x.Failed = why
		text, err := x.Encode()
		if err != nil {
			t.Fatal(err)
		}
		list := []section{whole(savedvm.StateName, text)}
		for _, name := range empty {
			var content []byte
			if name == full {
				content = []byte("something")
			}
			list = append(list, whole(name, content))
		}
		var b bytes.Buffer
		if err := from.write(&b, list); err != nil {
			t.Fatal(err)
		}
		to := newWorld(t)
		err = to.Restore(&b, nil, false)
		if err != nil && to.told != gpubackend.Success {
			t.Errorf("it is refused (%v), and has failed with %v", err, to.told)
		}
		return err
	}
	if err := try(gpubackend.IllegalAddress, ""); err != nil {
		t.Fatal(err)
	}
	for _, why := range []gpubackend.Result{gpubackend.OutOfMemory, gpubackend.NotReady, -1} {
		if err := try(why, ""); !errors.Is(err, saved.ErrRecord) {
			t.Errorf("%v: %v", why, err)
		}
	}
	for _, name := range empty {
		if err := try(gpubackend.IllegalAddress, name); !errors.Is(err, savedvm.ErrSaved) {
			t.Errorf("section %q isn't empty: %v", name, err)
		}
	}
}
