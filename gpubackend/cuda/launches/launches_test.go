// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/launches"
)

// fake counts what is launched, and packs as the binding does.
type fake struct {
	attributes [driver.MaxLaunchAttributes * cudaabi.LaunchAttributeSize]byte
	packed     []byte
	offsets    int // asked for
	touched    []gpubackend.Stream
	together   int // entries of a launch on several devices

	plain, replayed, patched int // launches
	built, freed             int // series
	noSeries, broken         bool
	fail                     int // number of the plain launch that fails, from 1
}

func (f *fake) Attributes(from []byte) []byte { return f.attributes[:copy(f.attributes[:], from)] }

func (f *fake) LaunchKernel(_ *gpubackend.Launch, _ []byte, offsets []uint32) gpubackend.Result {
	if f.plain++; offsets != nil {
		f.offsets++
	}
	return gpubackend.Success
}

func (f *fake) FuncOffsets(gpubackend.Function, []byte) []uint32 { return []uint32{0} }

// Offsets are those of one parameter of 12 bytes.
func (f *fake) Offsets(_ gpubackend.Function, packed []byte) ([]uint32, bool) {
	return []uint32{0}, len(packed) == 12
}

func (f *fake) LaunchDevices(
	ls []gpubackend.Launch, offsets [][]uint32, _ uint32,
) gpubackend.Result {
	f.together, f.offsets = len(ls), len(offsets)
	return gpubackend.Success
}

func (f *fake) Pack(ls []gpubackend.Launch) (n int) {
	f.packed = nil
	for n < len(ls) && n < driver.MaxLaunches &&
		len(ls[n].Parameters) <= cudaabi.MaxParameterBytes {
		f.packed = append(f.packed, ls[n].Parameters...)
		f.packed = append(f.packed,
			make([]byte, driver.Padded(len(ls[n].Parameters))-len(ls[n].Parameters))...)
		n++
	}
	return n
}

func (f *fake) Packed() []byte { return f.packed }

func (f *fake) Submit(n int) (int, gpubackend.Result) {
	for i := range n {
		if f.plain++; f.plain == f.fail {
			return i, gpubackend.LaunchOutOfResources
		}
	}
	return n, gpubackend.Success
}

func (f *fake) Touch(s gpubackend.Stream) { f.touched = append(f.touched, s) }
func (f *fake) CanMakeSeries() bool       { return true }

func (f *fake) BuildSeries(int) *driver.Series {
	if f.noSeries {
		return nil
	}
	f.built++
	return &driver.Series{}
}

func (f *fake) LaunchSeries(_ *driver.Series, changed []byte) gpubackend.Result {
	if f.broken {
		return gpubackend.InvalidValue
	}
	f.replayed += len(changed)
	for _, c := range changed {
		f.patched += int(c)
	}
	return gpubackend.Success
}

func (f *fake) FreeSeries(*driver.Series) { f.freed++ }

func newLaunches(f *fake, capturing *bool) *Launches {
	x, _ := contextstest.New(nil)
	return New(f, x, func() bool { return capturing != nil && *capturing }, true)
}

// batch is n launches of one kernel, of which some may have another's parameters.
func batch(n int, other ...int) []gpubackend.Launch {
	ls := make([]gpubackend.Launch, n)
	for i := range ls {
		ls[i] = gpubackend.Launch{Function: 7, Stream: 2, Parameters: make([]byte, 12)}
	}
	for _, i := range other {
		ls[i].Parameters[11] = 1
	}
	return ls
}

// TestReplays: what comes for the second time is a graph, whose nodes are patched where they
// differ.
func TestReplays(t *testing.T) {
	for _, test := range []struct {
		name                     string
		prepare                  func(x *Launches, f *fake)
		plain, replayed, patched int
		built, freed             int
	}{
		{"as they come", func(*Launches, *fake) {}, 32, 64, 3, 1, 0},
		{"references are used", func(x *Launches, _ *fake) { x.EndReplays() }, 96, 0, 0, 0, 0},
		{"no graph can be made", func(_ *Launches, f *fake) { f.noSeries = true }, 96, 0, 0, 0, 0},
		{"graphs can't be patched", func(_ *Launches, f *fake) { f.broken = true }, 96, 0, 0, 2, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{}
			x := newLaunches(f, nil)
			test.prepare(x, f)
			for _, ls := range [][]gpubackend.Launch{batch(32), batch(32), batch(32, 1, 5, 9)} {
				if n, r := x.LaunchAll(ls); n != len(ls) || r != gpubackend.Success {
					t.Fatalf("%d queued, result %d", n, r)
				}
			}
			if f.plain != test.plain || f.replayed != test.replayed || f.patched != test.patched {
				t.Errorf("%d plain, %d replayed, %d patched", f.plain, f.replayed, f.patched)
			}
			if f.built != test.built || f.freed != test.freed {
				t.Errorf("%d graphs made, %d freed", f.built, f.freed)
			}
		})
	}
}

// TestReplaysAreForgotten with their context and their functions.
func TestReplaysAreForgotten(t *testing.T) {
	f := &fake{}
	x := newLaunches(f, nil)
	repeat := func() {
		for range 2 {
			x.LaunchAll(batch(launches.MinReplay))
		}
	}
	repeat()
	if f.built != 1 || f.freed != 0 {
		t.Fatalf("%d graphs made, %d freed", f.built, f.freed)
	}
	x.Forget()
	if f.freed != 1 {
		t.Errorf("%d freed", f.freed)
	}
	repeat()
	c, _ := x.contexts.CtxCreate(0, 0)
	x.contexts.SetCurrent(c)
	repeat()
	if f.built != 3 || f.freed != 2 {
		t.Errorf("%d graphs made, %d freed, in two contexts", f.built, f.freed)
	}
}

// TestPlainWhileCapturing: launches that are captured are no graph of their own.
func TestPlainWhileCapturing(t *testing.T) {
	f, capturing := &fake{}, true
	x := newLaunches(f, &capturing)
	for range 3 {
		x.LaunchAll(batch(launches.MinReplay))
	}
	if f.plain != 3*launches.MinReplay || f.built != 0 || len(f.touched) != 3 || f.touched[0] != 2 {
		t.Errorf("%d launches, %d graphs, streams %v", f.plain, f.built, f.touched)
	}
}

func TestPlainLaunchesStopAtTheFirstThatFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(f *fake, ls []gpubackend.Launch)
		want   int
		result gpubackend.Result
	}{
		{"none", func(*fake, []gpubackend.Launch) {}, 300, 0},
		{"the driver", func(f *fake, _ []gpubackend.Launch) { f.fail = 201 }, 200,
			gpubackend.LaunchOutOfResources},
		{"too many parameters", func(_ *fake, ls []gpubackend.Launch) {
			ls[150].Parameters = make([]byte, cudaabi.MaxParameterBytes+1)
		}, 150, gpubackend.InvalidValue},
	} {
		f := &fake{}
		x := newLaunches(f, nil)
		x.EndReplays()
		ls := batch(300)
		test.change(f, ls)
		if n, r := x.LaunchAll(ls); n != test.want || r != test.result {
			t.Errorf("%s: %d queued, result %d", test.name, n, r)
		}
	}
}

// TestAttributes: what a guest may not have is refused before the driver hears of it.
func TestAttributes(t *testing.T) {
	attribute := func(ids ...uint32) []byte {
		b := make([]byte, len(ids)*cudaabi.LaunchAttributeSize)
		for i, id := range ids {
			binary.LittleEndian.PutUint32(b[i*cudaabi.LaunchAttributeSize:], id)
		}
		return b
	}
	for _, test := range []struct {
		name       string
		attributes []byte
		capturing  bool
		want       gpubackend.Result
		offsets    int
	}{
		{"none", nil, true, 0, 0},
		{"cooperative", attribute(cudaabi.LaunchAttributeCooperative), false, 0, 0},
		{"cooperative, captured", attribute(4, cudaabi.LaunchAttributeCooperative), true, 0, 1},
		{"cluster, captured", attribute(4), true, 0, 0},
		{"a node", attribute(4, 13), false, gpubackend.NotSupported, 0},
		{"half of one", attribute(4)[:40], false, gpubackend.InvalidValue, 0},
		{"too many", attribute(make([]uint32, driver.MaxLaunchAttributes+1)...), false,
			gpubackend.InvalidValue, 0},
	} {
		f := &fake{}
		l := batch(1)[0]
		l.Attributes = test.attributes
		r := newLaunches(f, &test.capturing).Launch(&l)
		if r != test.want || f.offsets != test.offsets || (r == 0) != (f.plain == 1) {
			t.Errorf("%s: result %d, %d launches, %d with pointers", test.name, r, f.plain,
				f.offsets)
		}
	}
}
