// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

func (f *fake) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	return gpubackend.Event(100 + len(f.log)), f.call("event")
}

func (f *fake) EventRecordWithFlags(
	e gpubackend.Event, s gpubackend.Stream, _ uint64,
) gpubackend.Result {
	return f.call("record %d in %d", e, s)
}

func (f *fake) StreamSynchronize(s gpubackend.Stream) gpubackend.Result {
	return f.call("wait for %d", s)
}

func (f *fake) StreamWaitEvent(
	s gpubackend.Stream, e gpubackend.Event, _ uint64,
) gpubackend.Result {
	return f.call("%d waits for %d", s, e)
}

func (f *fake) EventDestroy(e gpubackend.Event) gpubackend.Result {
	return f.call("destroy %d", e)
}

// TestElsewhere: a copy between the host and a GPU that isn't current is done by that GPU, after
// what is in the stream, and before what comes later.
func TestElsewhere(t *testing.T) {
	x, f := newCopies()
	const other = device + 1<<20
	here := x.contexts.CurrentHandle()
	x.contexts.DevicePrimaryCtxRetain(1)
	around := func(copies ...string) []string {
		log := []string{"event", "record 100 in 3", "7 waits for 100"}
		log = append(log, copies...)
		last := string(rune('0' + len(log)))
		return append(log, "event", "record 10"+last+" in 7", "3 waits for 10"+last,
			"destroy 10"+last, "destroy 100")
	}
	box := &gpubackend.Box{
		Dst: host, DstPitch: 64, Src: other, SrcPitch: 64, Width: 32, Height: 2, Depth: 1,
	}
	x.CopyOut(make([]byte, 1), other) // makes the other GPU's stream
	f.take()
	for _, test := range []struct {
		name string
		do   func() gpubackend.Result
		want []string
	}{
		{"to it", func() gpubackend.Result { return x.Copy(other, host, 64, 3) },
			around("copy 64 in 7")},
		{"from it", func() gpubackend.Result { return x.Copy(host, other, 65, 3) },
			around("copy 65 in 7")},
		{"a slice in", func() gpubackend.Result { return x.CopyIn(other, make([]byte, 66), 3) },
			around("slice in 66")},
		{"a box", func() gpubackend.Result { return x.CopyBox(box, 3) }, around("2D")},
		{"a slice out", func() gpubackend.Result { return x.CopyOut(make([]byte, 67), other) },
			[]string{"slice out 67 in 7"}},
		{"of the current one", func() gpubackend.Result { return x.Copy(device, host, 68, 3) },
			[]string{"copy 68 in 3"}},
	} {
		r := test.do()
		if log := f.take(); r != gpubackend.Success || !slices.Equal(log, test.want) {
			t.Errorf("%s: result %d, %q, want %q", test.name, r, log, test.want)
		}
		if x.contexts.CurrentHandle() != here {
			t.Fatalf("%s: another context is current", test.name)
		}
	}
}
