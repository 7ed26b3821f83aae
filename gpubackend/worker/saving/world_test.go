// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/graphs"
	"github.com/paracuda/paracuda/gpubackend/worker/hostmemory"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/gpubackend/worker/sharing"
	"github.com/paracuda/paracuda/gpubackend/worker/textures"
)

// device notes what it is told, in order. Its layout is the text in it.
type device struct {
	unsaved   bool
	unsavable string
	query     gpubackend.Result
	fixed     int // graphs
	layout    string
	allocated []gpubackend.Allocation
	codes     []gpubackend.Code
	arrays    []gpubackend.ArrayPlace
	events    []gpubackend.EventTime
	fails     string // the step that does
	memory    []byte
	did       []string
}

func (d *device) do(what string, args ...any) gpubackend.Result {
	d.did = append(d.did, fmt.Sprintf(what, args...))
	if d.fails != "" && bytes.HasPrefix([]byte(what), []byte(d.fails)) {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

func (d *device) ContextQuery() gpubackend.Result { return d.query }
func (d *device) FixedGraphs() int                { return d.fixed }
func (d *device) Saves() bool                     { return !d.unsaved }
func (d *device) Unsavable() string               { return d.unsavable }
func (d *device) SaveLayout(to io.Writer) error {
	_, err := io.WriteString(to, d.layout)
	return err
}
func (d *device) RestoreLayout(from io.Reader) error {
	b := make([]byte, 6)
	_, err := io.ReadFull(from, b)
	d.layout = string(b)
	return errors.Join(err, d.do("layout %s", b).Err())
}
func (d *device) LayoutRestored() error              { return d.do("layout is right").Err() }
func (d *device) Allocated() []gpubackend.Allocation { return d.allocated }
func (d *device) TakeAllocation(a gpubackend.Allocation) gpubackend.Result {
	return d.do("take %#x", a.Address)
}
func (d *device) Codes() []gpubackend.Code       { return d.codes }
func (d *device) PlaceCode(address uint64) error { return d.do("place %#x", address).Err() }
func (d *device) LoadCode(l gpubackend.Library) gpubackend.Result {
	return d.do("load library %d", l)
}
func (d *device) ArrayPlaces() []gpubackend.ArrayPlace { return d.arrays }
func (d *device) SavesTextures() bool                  { return !d.unsaved }
func (d *device) UnsavableCode(image []byte, _ *budget.Account) string {
	if bytes.Equal(image, []byte("bad")) {
		return "bad code"
	}
	return ""
}
func (d *device) EventTimes(list []gpubackend.Event) (times []gpubackend.EventTime) {
	for _, t := range d.events {
		if slices.Contains(list, t.Event) {
			times = append(times, t)
		}
	}
	return times
}
func (d *device) SetEventTimes(list []gpubackend.EventTime) gpubackend.Result {
	return d.do("times %v", list)
}

// The rooms of a program. Each has what is saved of it.
type (
	fakeContexts struct{ gone bool }
	fakeHello    struct {
		open        bool
		environment []string
		inventory   []byte
	}
	fakeQueue struct {
		q    saved.Queue
		used bool
		err  error
	}
	fakeHostFuncs struct {
		seq   uint32
		waits bool
	}
	fakeHistory struct {
		executed []journal.Executed
		others   int
		refused  error
	}
	fakePools struct {
		s, joined pools.Saved
		offered   int
		lacks     error
	}
	fakeGraphs struct {
		s        graphs.Saved
		captures int
		err      error
	}
	fakeTextures struct {
		s     []textures.SavedObject
		fixed int
		err   error
	}
	fakeMemory struct {
		s               memory.Saved
		handles, shared int
	}
	fakeHostMemory struct {
		s     hostmemory.Saved
		shown int
	}
	fakeSharing struct {
		s, offered, joined sharing.Saved
		lacks, gone        error
	}
	fakeImports struct {
		s, joined []exports.Saved
		lacks     error
	}
	fakeDeviceMemory struct {
		d    *device
		list []gpubackend.Piece
		b    []byte
		out  uint64
	}
)

func (c *fakeContexts) Set(handle uint64, _ bool) gpubackend.Result {
	if c.gone {
		return gpubackend.InvalidContext
	}
	return gpubackend.Success
}

func (h *fakeHello) IsOpen() bool             { return h.open }
func (h *fakeHello) Told() ([]string, []byte) { return h.environment, h.inventory }
func (h *fakeHello) Suits(inventory []byte) bool {
	return bytes.Equal(h.inventory, inventory)
}
func (h *fakeHello) Reopen(variables []string) gpubackend.Result {
	h.open, h.environment = true, variables
	return gpubackend.Success
}

func (q *fakeQueue) Saved() *saved.Queue           { return &q.q }
func (q *fakeQueue) Restore(s *saved.Queue) error  { q.q = *s; return q.err }
func (q *fakeQueue) Used(func(*maps.Map) int) bool { return q.used }
func (h *fakeHostFuncs) Told() (uint32, bool)      { return h.seq, h.waits }
func (h *fakeHostFuncs) GoOn(seq uint32)           { h.seq = seq }
func (h *fakeHistory) Refused() error              { return h.refused }
func (p *fakePools) Save() (*pools.Saved, error)   { return &p.s, nil }
func (p *fakePools) Offered() int                  { return p.offered }
func (p *fakePools) Lacks() error                  { return p.lacks }
func (p *fakePools) Join(x *pools.Saved) error     { p.joined = *x; return nil }
func (g *fakeGraphs) Captures() int                { return g.captures }
func (g *fakeGraphs) Saves() int                   { return 0 }
func (g *fakeGraphs) Save() (*graphs.Saved, error) { return &g.s, g.err }
func (t *fakeTextures) Fixed() int                 { return t.fixed }
func (t *fakeTextures) Save() ([]textures.SavedObject, error) {
	return t.s, t.err
}
func (m *fakeMemory) Handles() int                    { return m.handles }
func (m *fakeMemory) Shared() (int, int)              { return m.shared, 0 }
func (m *fakeMemory) Lone() int                       { return m.shared }
func (m *fakeMemory) Lacks() error                    { return nil }
func (m *fakeMemory) Save() memory.Saved              { return m.s }
func (m *fakeHostMemory) Shown() int                  { return m.shown }
func (m *fakeHostMemory) Uses(*maps.Map) int          { return 0 }
func (m *fakeHostMemory) Save() hostmemory.Saved      { return m.s }
func (s *fakeSharing) Offered() (int, int)            { return len(s.s.Memory), len(s.s.Events) }
func (s *fakeSharing) Handles() int                   { return len(s.s.Opened) }
func (s *fakeSharing) Opened(uint64) bool             { return false }
func (s *fakeSharing) Lacks() error                   { return s.lacks }
func (s *fakeSharing) Save() sharing.Saved            { return s.s }
func (s *fakeSharing) Restore(x *sharing.Saved) error { s.offered = *x; return nil }
func (i *fakeImports) Save() []exports.Saved          { return i.s }
func (i *fakeImports) Lacks() error                   { return i.lacks }
func (i *fakeImports) Join(x []exports.Saved) error   { i.joined = x; return nil }
func (m *fakeDeviceMemory) All() []gpubackend.Piece   { return m.list }

func (m *fakeMemory) Join(*memory.Saved, func(handle uint64) error) error { return nil }

// Join takes nothing as long as it is gone.
func (s *fakeSharing) Join(x *sharing.Saved, _ func(uint64) error) error {
	if s.gone == nil {
		s.joined = *x
	}
	return s.gone
}

func (m *fakeDeviceMemory) Save(to io.Writer) error {
	_, err := to.Write(m.b)
	return err
}
func (m *fakeDeviceMemory) ImageBytes() uint64 { return m.out }
func (m *fakeDeviceMemory) SavePart(list []gpubackend.Piece, to io.Writer) error {
	for _, p := range list {
		if _, err := to.Write(m.b[p.Address-m.list[0].Address:][:p.Bytes]); err != nil {
			return err
		}
	}
	return nil
}
func (m *fakeDeviceMemory) Fill(list []gpubackend.Piece, from io.Reader) error {
	if m.d.memory == nil {
		m.d.memory = make([]byte, 5)
	}
	var err error
	for _, p := range list {
		_, failed := io.ReadFull(from, m.d.memory[p.Address-1<<44:][:p.Bytes])
		err = errors.Join(err, failed)
	}
	return errors.Join(err, m.d.do("fill").Err())
}

func (h *fakeHistory) Executed(others int) ([]journal.Executed, error) {
	h.others = others
	return h.executed, nil
}

func (h *fakeHistory) Replay(
	executed []journal.Executed, run func(*call.Call) gpubackend.Result,
	before, after func(made []uint64) error,
) error {
	h.executed = executed
	for _, e := range executed {
		if err := before(e.Made); err != nil {
			return err
		}
		c := call.New(nil)
		c.Start(&arena.Command{})
		c.Context = uint64(e.Op)
		if result := run(&c); result != gpubackend.Success {
			return result.Err()
		}
		if err := after(e.Made); err != nil {
			return err
		}
	}
	return nil
}

func (p *fakePools) Restore(s *pools.Saved, _ func(uint64) error) error {
	p.s = *s
	return nil
}

func (g *fakeGraphs) Restore(s *graphs.Saved, _ *graphs.Restoring) error {
	g.s = *s
	return g.err
}

func (t *fakeTextures) Restore(
	list []textures.SavedObject, _ func(uint64) gpubackend.Result,
) error {
	t.s = list
	return t.err
}

func (m *fakeMemory) Restore(s *memory.Saved, _ func(uint64) error) error {
	m.s = *s
	return nil
}

func (m *fakeHostMemory) Restore(s *hostmemory.Saved) error { m.s = *s; return nil }

// world is a program, and a Saving of it.
type world struct {
	*Saving
	device     device
	objects    object.Table
	contexts   fakeContexts
	hello      fakeHello
	queue      fakeQueue
	hostFuncs  fakeHostFuncs
	history    fakeHistory
	pools      fakePools
	graphs     fakeGraphs
	textures   fakeTextures
	memory     fakeMemory
	hostMemory fakeHostMemory
	sharing    fakeSharing
	imports    fakeImports
	onDevice   fakeDeviceMemory
	waits      error
	told       gpubackend.Result
	changed    fakePrecopied
	filed      fakeFiled
}

// fakeFiled is what a file has of memory, and what of it hasn't changed.
type fakeFiled struct {
	noted, rest []gpubackend.Piece
	runs        []savedvm.SameRun
}

func (f *fakeFiled) Note(list []gpubackend.Piece) { f.noted = list }
func (f *fakeFiled) Compare(list []gpubackend.Piece) ([]savedvm.SameRun, []gpubackend.Piece) {
	if f.runs == nil {
		return nil, list
	}
	return f.runs, f.rest
}

// fakePrecopied is what has changed; nil: nothing was copied ahead.
type fakePrecopied []gpubackend.Piece

func (f *fakePrecopied) Changed([]gpubackend.Piece) ([]gpubackend.Piece, error) {
	if *f == nil {
		return nil, errors.New("nothing is ahead")
	}
	return *f, nil
}

func (f *fakePrecopied) Early([]gpubackend.Piece) (
	runs []savedvm.SameRun, rest []gpubackend.Piece, err error,
) {
	if *f == nil {
		return nil, nil, errors.New("nothing is ahead")
	}
	return []savedvm.SameRun{{Same: 3, From: 7, Own: gpubackend.PieceBytes(*f)}}, *f, nil
}

// fakeImage is what was copied ahead.
type fakeImage string

func (i fakeImage) ReadAt(b []byte, address int64) (int, error) {
	return strings.NewReader(string(i)).ReadAt(b, address-1<<44)
}

// newWorld is a program that has done nothing.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{hello: fakeHello{inventory: []byte("two GPUs")}}
	w.onDevice.d = &w.device
	w.Saving = New(Config{
		GPU: "0", Driver: &w.device, Objects: &w.objects, Contexts: &w.contexts, Hello: &w.hello,
		Queue: &w.queue, HostFuncs: &w.hostFuncs, History: &w.history, Pools: &w.pools,
		Graphs: &w.graphs, Textures: &w.textures, Memory: &w.memory, HostMemory: &w.hostMemory,
		Sharing: &w.sharing, Imports: &w.imports, DeviceMemory: &w.onDevice, Precopied: &w.changed,
		Filed: &w.filed,
		Waits: func() error { return w.waits }, Run: w.make,
		Told: func() gpubackend.Result { return w.told },
		Fail: func(r gpubackend.Result) { w.told = r },
	})
	return w
}

// make executes one of the commands in the history: it makes an object of the kind that its number
// says, in the first context.
func (w *world) make(c *call.Call) gpubackend.Result {
	kind, parent := object.Kind(c.Context), uint64(0)
	for h := range w.objects.All(object.Context) {
		parent = h
	}
	w.device.do("make %d", kind)
	w.objects.Add(kind, uint64(kind), parent)
	return gpubackend.Success
}

// programKinds are the objects of newProgram, in their order.
var programKinds = []object.Kind{object.Context, object.Module, object.Library, object.Event,
	object.Array}

// newProgram is one that has something of everything, and whose memory is out.
func newProgram(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.hello.open, w.hello.environment = true, []string{"CUDA_A=\xff"}
	w.queue.q = saved.Queue{Base: 7, Due: true}
	w.hostFuncs.seq = 9
	w.memory.s = memory.Saved{Reserved: []addresses.Range{{Base: 1 << 45, Bytes: 4096}},
		Created: []memory.SavedMemory{{Native: 3}}}
	w.pools.s = pools.Saved{Defaults: map[uint64]uint64{0: 1}}
	w.graphs.s = graphs.Saved{Execs: []graphs.SavedExec{{Handle: 77}}}
	w.textures.s = []textures.SavedObject{{Number: 5}}
	w.hostMemory.s = hostmemory.Saved{Ranges: []hostmemory.SavedRange{{Map: 3}}}
	w.onDevice.list = []gpubackend.Piece{{Address: 1 << 44, Bytes: 5}}
	w.onDevice.b = []byte("bytes")
	for _, kind := range programKinds {
		c := call.New(nil)
		c.Start(&arena.Command{})
		c.Context = uint64(kind)
		w.make(&c)
		w.history.executed = append(w.history.executed,
			journal.Executed{Op: uint16(kind),
				Made: []uint64{w.objects.Existing(kind, uint64(kind))}})
	}
	const context = gpubackend.Context(object.Context)
	w.device = device{
		layout:    "layout",
		allocated: []gpubackend.Allocation{{Address: 0xa0, Bytes: 1, Context: context}},
		codes: []gpubackend.Code{
			{Address: 0xb0, Module: gpubackend.Module(object.Module), Context: context},
			{Address: 0xc0, Library: gpubackend.Library(object.Library), Context: context},
		},
		arrays: []gpubackend.ArrayPlace{{Address: 0xd0, Array: gpubackend.Array(object.Array)}},
		events: []gpubackend.EventTime{
			{Event: gpubackend.Event(object.Event), Ago: 3, Context: context},
			{Event: 999, Ago: 1},
		},
	}
	return w
}

// record is what a program writes.
func (w *world) record(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := w.Save(&b, savedvm.Nowhere); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
