// SPDX-License-Identifier: Apache-2.0

package device

import (
	"io"
	"math"
	"os"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/ahead"
	"github.com/paracuda/paracuda/gpubackend/device/away"
	"github.com/paracuda/paracuda/gpubackend/device/channels"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/faults"
	"github.com/paracuda/paracuda/gpubackend/device/figures"
	"github.com/paracuda/paracuda/gpubackend/device/infile"
	"github.com/paracuda/paracuda/gpubackend/device/mappings"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/objects"
	"github.com/paracuda/paracuda/gpubackend/device/opening"
	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/reach"
	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/strangers"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/shares"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// New makes a device out of its parts. If a part needs another that is made later, it gets a
// function.
func New(c Config) *Device {
	c = c.withDefaults()
	d := &Device{config: c, configSpace: configSpace{c.Version}, crew: crew{log: c.Log},
		ram: ram.New(c.Numbers, c.Opener, c.Log), exports: exports.New(proclimit.Files())}
	d.shares = shares.New(shares.Config{Patience: c.Timeouts.Answer / 2, Guard: d.guard})
	d.mappings = mappings.New(mappings.Config{RAM: d.ram, Opens: c.GPU == "cuda", Run: d.run,
		Make: c.Make, Log: d.log, Vouchers: func() uint64 { return d.control.Vouchers() }})
	policy := &c.Settings.Policy
	d.faults = faults.New(gpusOf(policy), policy.Known(), c.Log)
	starts := pace.New(float64(c.Settings.Starts), opening.Burst, c.Clock)
	d.joinSettings(starts)
	d.joinMemory()
	d.joinChannels()
	d.joinPrograms(starts)
	d.joinFrontEnd()
	d.control.SettingsChanged()
	d.takeOver(&c.Before)
	return d
}

func (c Config) withDefaults() Config {
	c.Timeouts = c.Timeouts.withDefaults()
	if c.Clock == nil {
		c.Clock = pace.Real
	}
	if c.HostMemory == nil {
		c.HostMemory = image.Host()
	}
	if c.Greeted == nil {
		c.Greeted = func() {}
	}
	if c.Version == 0 {
		c.Version = wire.Version
	}
	return c
}

// joinSettings makes the part that has the VM's settings, and tells everybody when they change.
func (d *Device) joinSettings(starts *pace.Pace) {
	c := &d.config
	d.settings = settings.NewVM(c.Settings, settings.Config{
		GPU: c.GPU, Sharer: c.Sharer, Sequence: c.Before.Sequence, Kept: c.Remains.Changed,
		Changed: func(before, now *settings.Now) {
			d.control.SettingsChanged()
			if now.Settings == before.Settings {
				return
			}
			starts.SetRate(float64(now.Settings.Starts))
			d.changed(before, now)
		},
	})
}

// joinMemory makes the parts that know of device memory, and move it.
func (d *Device) joinMemory() {
	c := &d.config
	d.accounts = newAccounts(&d.config, d.crew.guard, func() uint64 {
		return d.Counters()[handover.GPUTime]
	}, d.holding)
	d.bound()
	d.suspension = d.newSuspension()
	d.away = away.New(away.Config{
		Tell: d.settings.GoesAway, Answer: c.Timeouts.Answer,
		Stays: func() error { return d.saving.Described() },
	})
	d.passes = passes.New(passes.Config{
		Programs: func() (list []passes.Program) {
			for _, w := range d.channels.Serving() {
				list = append(list, passes.Program{Channel: w.Channel(), Worker: w})
			}
			return list
		},
		Log: d.log,
	})
	d.saving = d.newSaving()
	d.place = d.newPlace()
}

// newSuspension makes the part that moves device memory out and in.
func (d *Device) newSuspension() *suspend.Suspension {
	return suspend.New(suspend.Config{
		Hold: func() []suspend.Worker {
			d.ahead.Empty() // of warm workers
			return d.serving.Suspended()
		},
		GoOn: func() {
			d.away.Stay()
			d.handOwed()
			d.serving.GoOn()
			d.ahead.Refill()
		},
		Guard: d.guard, Log: d.log,
		Terms: func() (time.Duration, uint64) {
			s := &d.settings.Now().Settings
			return s.StopGrace, s.SuspendMemory
		},
		Room: func() (uint64, error) { return d.config.HostMemory() },
		Keep: func() uint64 {
			s := &d.settings.Now().Settings
			if s.SuspendMemory != 0 {
				return min(s.SuspendKeep, s.SuspendMemory)
			}
			return s.SuspendKeep
		},
		Note: func(suspended bool) {
			d.config.Remains.Note(func(f *remains.Facts) { f.Suspended = suspended })
		},
		Stays: d.accounts.Sum,
	})
}

// newSaving makes the part that writes programs to a file, and makes them again from it.
func (d *Device) newSaving() *saving.Saving {
	return saving.New(saving.Config{
		GPU: d.config.GPU, Build: d.config.Build, Suspension: d.suspension, Known: d.away.Key,
		Channels: int(d.settings.Told().Channels), Run: d.run, Bound: d.settings.MemoryBound,
		Descriptors: d.exports.Lone, Open: d.exports.State,
		Had: func(w saving.Worker) map[uint64]uint64 {
			return d.accounts.OfEach(w.(*workers.Worker))
		},
		Serving: func() []saving.Served { return served(d.channels.Serving()) },
		Hold:    d.exports.Hold,
		Leave: func(s saving.Served, saved func()) {
			w := s.Worker.(*workers.Worker)
			d.channels.Leave(w, func() {
				d.exports.Leave(&w.Offers)
				saved()
			})
		},
		GoesOn:  func(w saving.Worker) { d.exports.GoesOn(&w.(*workers.Worker).Offers) },
		Arrived: func(channel int) { d.objects.HandOwed(channel) },
		Begin: func(
			p *saving.Program, from saving.Source, still func() bool,
		) (saving.Worker, error) {
			return d.opening.Resume(p, from, still)
		},
		Arrive: func(p *saving.Program, from saving.Source) (saving.Worker, error) {
			return d.opening.Arrive(p, from)
		},
		Passes: d.passes, Went: d.went, Image: d.image,
		Noted: func() {
			d.config.Remains.Note(func(f *remains.Facts) { f.InFile = d.infile.Known() })
		},
		Resumed: func(channel int) { // its worker may be gone already
			d.channels.Reclaim(channel, func() bool { return true })
		},
	})
}

// joinChannels makes the parts of the mover, the workers and the channels.
func (d *Device) joinChannels() {
	c, t := &d.config, d.config.Timeouts
	d.movers = movers.New(movers.Config{
		Spawn: func(control *os.File) (Process, error) { return c.Spawn.Mover(control) },
		Go:    d.run, Unmarked: d.ram.MarkAll, Ended: d.moverEnded, Log: d.log,
		Ending: func(m *movers.Mover) { d.reach.Ending(m) },
		Serves: c.Notes.ServesMover, Over: c.Notes.Ended,
		Start: t.Start, Answer: t.Answer, Stop: t.Stop, Exit: t.Exit,
	})
	d.strangers = strangers.New(strangers.Config{
		Return: func(channel int, still func() bool) { d.channels.Reclaim(channel, still) },
		Guard:  d.guard, Log: d.log,
	})
	d.channels = channels.New(channels.Config{
		Channels: int(d.settings.Told().Channels), RAM: d.ram,
		Saved:     savedPrograms{d.saving, d.exports},
		Strangers: d.strangers,
		Lingering: d.movers.Lingering, Idle: d.suspension.Idle,
		Grace:  func() time.Duration { return d.settings.Now().Settings.StopGrace },
		Cold:   func(channel int, p *workers.Program) { d.opening.Cold(channel, p) },
		Serves: d.serves,
		Park:   d.park, Exit: t.Exit, Remains: c.Remains, Guard: d.guard,
		Log: d.log,
	})
	d.serving, d.standstill = d.channels.Serving, d.channels.Standstill()
	d.workers = workers.New(workers.Config{
		Spawn:  func(control *os.File) (Process, error) { return c.Spawn.Worker(control) },
		Limits: workers.Limits{Answer: t.Answer, Stop: t.Stop, Exit: t.Exit},
		Began:  func(w *workers.Worker) { d.accounts.Began(w) },
		Said:   d.said,
		Exited: func(w *workers.Worker) {
			if w.AsksCold() { // whether another one begins is decided later
				c.Notes.AwaitsCold(w.Process())
			} else {
				c.Notes.Ended(w.Process())
			}
			d.accounts.Ended(w)
			d.suspension.Forget(w)
		},
		Ended: d.workerEnded, Guard: d.guard, Run: d.run, Log: d.log,
	})
}

// joinPrograms makes the parts that give a program its worker, the mover, and what others export.
func (d *Device) joinPrograms(starts *pace.Pace) {
	c, t := &d.config, d.config.Timeouts
	d.reach = reach.New(reach.Config{
		Movers: d.movers, Need: d.needMover,
		Here: func() bool { return d.ram.Now() != nil }, Came: d.ram.Came(),
		IdleTime: func() time.Duration { return d.settings.Now().Settings.IdleTime },
		Copied:   func() uint64 { return d.Counters()[handover.BytesMapped] },
		Unmet:    d.channels.Unmet,
		Vouchers: func() uint64 { return d.control.Vouchers() },
		Guard:    d.guard, Run: d.run, Log: d.log,
	})
	d.ahead = ahead.New(ahead.Config{
		GPU: c.GPU, GPUs: gpusOf(&c.Settings.Policy), Settings: d.settings, Workers: d.workers,
		Accounts: d.accounts, Asks: c.Asks,
		Used: func() bool { return d.accounts.Serving() || d.channels.Used() },
		Held: d.suspension.Held, StopMover: d.movers.BeginStop, Starts: starts, Clock: c.Clock,
		Start: t.Start, Answer: t.Answer, Guard: d.guard, Run: d.run, Log: d.log,
	})
	d.opening = opening.New(opening.Config{
		GPU: c.GPU, Channels: d.channels, Workers: d.workers, Ahead: d.ahead,
		Accounts: d.accounts, Exports: d.exports, Shares: d.shares,
		Settings: d.settings, RAM: d.ram,
		Mappings: d.mappings, Asks: c.Asks,
		Left: d.movers.AwaitLeft, Starts: starts, Held: d.suspension.Held, Saved: d.saving.Has,
		Rejoin: d.suspension.Rejoin, Joins: d.reach.Joins, Begins: d.serves,
		HandOwed: func(channel int) { d.objects.HandOwed(channel) },
		Start:    t.Start, Answer: t.Answer, Run: d.run, Log: d.log,
	})
	d.objects = objects.Objects{Exports: d.exports, Worker: d.sharer, Answer: t.Start, Log: d.log}
}

// joinFrontEnd makes the parts that face the front end and its driver, and that report on the VM.
func (d *Device) joinFrontEnd() {
	c := &d.config
	d.control = control.New(control.Config{
		Greet: func() {
			d.strangers.Greet()
			d.infile.Unused()
			c.Greeted()
		},
		Expect: d.strangers.Expect, Again: c.Greeted,
		OpenChannel: d.opening.Open,
		CloseChannel: func(channel int) uint32 {
			d.channels.Close(channel)
			return wire.StatusOk
		},
		MayGo: d.away.Heard,
		IsBack: func(key [away.KeyBytes]byte) uint32 {
			return d.infile.Back(away.Known(key))
		},
		ExportObject: d.objects.Export, ImportObject: d.objects.Import, Exports: d.exports,
		Channels: uint32(d.channels.Len()), Version: c.Version, Generation: c.Generation,
		Vouchers: c.Vouchers,
		Told:     d.settings.Told, Parked: &d.parked, Exit: c.Timeouts.Exit, Remains: c.Remains,
		Guard: d.guard, Log: d.log,
	})
	d.infile = infile.New(infile.Config{
		Programs: d.saving, Channels: d.channels.Filed(),
		Suspension: filed{d.suspension, d.exports}, From: c.From,
		Describe: d.describe, Forget: d.forget, Empty: d.ahead.Empty, Goes: d.away.Goes,
		Used: d.channels.Used,
		Reclaim: func(channel int) {
			d.channels.Reclaim(channel, func() bool { return true })
		},
		Run: d.run, Log: d.log,
	})
	d.joinMigration()
	d.saved = savedstate.Of(savedstate.Config{
		Version: c.Version, Control: d.control, Greeting: d.strangers, Settings: d.settings,
		Stays: d.channels.Stays, Serves: func() bool { return len(d.channels.Serving()) > 0 },
		Descriptors: d.exports.Lone, Objects: savedObjects{d.exports, d.saving.Has},
		Suspension: d.suspension.State, Copy: d.saving.Copy,
		Arrive: func(r io.Reader) (func() error, error) {
			programs, err := d.saving.Arrive(r)
			if err != nil {
				return nil, err
			}
			return func() error {
				defer d.incoming.Forget()
				return programs.Take()
			}, nil
		},
		File: d.infile, Forget: d.forget, Greeted: c.Greeted,
	})
	d.figures = figures.Of(figures.Config{
		GPU: c.GPU, Settings: d.settings, Counters: d.Counters, State: d.suspension.Status,
		Programs: func() []admin.Program { return programs(d.channels.Serving(), d.accounts) },
		Memory:   d.accounts.All, GPUs: d.accounts.GPUs, Stays: d.saved.Stays,
		OnEach: func() []uint64 { return d.accounts.On(c.Counted) }, Faults: d.faults.List,
	})
}

// served are workers with their programs, as package saving has them.
func served(serving []*workers.Worker) (list []saving.Served) {
	for _, w := range serving {
		p := w.Program()
		list = append(list,
			saving.Served{Channel: w.Channel(), PID: p.PID, Name: p.Name, Worker: w})
	}
	return list
}

// programs are what is reported of workers' programs.
func programs(serving []*workers.Worker, a *accounts.Accounts) (list []admin.Program) {
	for _, w := range serving {
		p := w.Program()
		list = append(list, admin.Program{
			Channel: w.Channel(), PID: p.PID, Name: p.Name,
			Stats: w.Counters().Map(), Memory: a.Of(w), Fixed: w.Fixed(),
		})
	}
	return list
}

// gpusOf is how many GPUs the VM has.
func gpusOf(p *handover.Policy) int { return max(1, p.SoftGPUs, len(p.Known())) }

// newAccounts makes the part that knows what the VM's processes take of the GPU.
func newAccounts(
	c *Config, guard func(string, func()) bool, gpuTime func() uint64,
	holding func(accounts.Process) accounts.Holding,
) *accounts.Accounts {
	tolerance := uint64(toleranceSoft)
	if c.GPU == "cuda" {
		tolerance = toleranceCUDA
	}
	return accounts.New(accounts.Config{
		Weigh: c.Weigh, Holding: holding,
		Page: c.Ledger, Gate: c.Gate, Tolerance: tolerance, Ask: c.Usage, Pause: c.AuditPause,
		GPUTime: gpuTime, Guard: guard, Log: c.Log,
	})
}

// Tolerances are by how much the driver may exceed a VM's bound, with what it takes by itself. On a
// real GPU that is mostly kernels' local memory.
const (
	toleranceCUDA = 512 << 20
	toleranceSoft = 64 << 20
)

// sharer returns a channel's worker, and how much memory all handles may hold: as much as the VM
// may have.
func (d *Device) sharer(channel int) (p objects.Peer, limit uint64, ok bool) {
	if limit = d.settings.MemoryBound(); limit == 0 {
		limit = math.MaxUint64
	}
	w := d.channels.Worker(channel)
	if w == nil {
		return objects.Peer{}, 0, false
	}
	return objects.Peer{Conn: w.Conn(), Offers: &w.Offers, Kill: w.Kill}, limit, true
}
