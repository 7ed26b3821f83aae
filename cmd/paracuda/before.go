// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/numbering"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/resumption"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// before is what the previous device process left with the keeper.
type before struct {
	session keptSession // without a keeper there is nothing of what follows
	remains *remains.Remains
	notes   *takeover.Notes
	numbers *numbering.Numbers // of files of the guest's memory
	facts   *remains.Facts     // nil: there was none
	serves  bool               // this process serves the VM
}

// takeOver takes what the previous process has left.
func (o *deviceOptions) takeOver(log *logrus.Entry) (*before, error) {
	if o.kept < 0 {
		numbers, err := numbering.New(nil, sandbox.AskedFrom, sandbox.AskedNumbers)
		return &before{numbers: numbers}, err
	}
	k, err := resumption.Open(o.kept, log)
	if err != nil {
		return nil, fmt.Errorf("take over from the device process before: %w", err)
	}
	b := &before{session: keptSession{k}}
	if b.remains, b.facts, err = remains.New(k, k.Own()); err != nil {
		return nil, errors.Join(err, k.Leave())
	}
	if err = understood(b.facts); err == nil {
		b.notes, err = takeover.Open(b.remains)
	}
	if err == nil {
		b.numbers, err = numbering.New(b.remains, sandbox.AskedFrom, sandbox.AskedNumbers)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	if b.facts == nil {
		return b, nil
	}
	for _, text := range b.facts.Settings {
		if o.sameGPUs(text) {
			continue
		}
		if err := o.settings.Set(text); err != nil {
			log.WithError(err).Warn("a policy that was changed has its first value again")
		}
	}
	return b, nil
}

// understood returns an error if the VM's driver, or its workers and the process that starts them,
// speak another version of their protocol. Nothing has been changed then: the program that has
// served the VM can go on.
func understood(f *remains.Facts) error {
	if f == nil {
		return nil
	}
	for _, p := range []struct {
		who, what string
		is, mine  uint32
	}{
		{"driver speaks", "the protocol", f.Protocol, wire.Version},
		{"workers speak", "the protocol between processes", f.Between, handover.Protocol},
	} {
		if p.is != 0 && p.is != p.mine {
			return fmt.Errorf("take over from the device process before: its VM's %s version %d "+
				"of %s, and this program %d", p.who, p.is, p.what, p.mine)
		}
	}
	return nil
}

// left says that the process ends before it serves: what was left stays with the keeper, for
// another process.
func (b *before) left() bool { return b.facts != nil && !b.serves }

// close gives up all that is kept: the process ends, as its VM has.
func (b *before) close() {
	keeping := b.session.keeping
	if keeping == nil {
		return
	}
	if b.left() {
		_ = keeping.Leave()
	} else {
		_ = keeping.Close()
	}
	b.notes.Close()
	b.numbers.Close()
	b.remains.Close()
}

// ledger is the page in which the VM's processes count device memory. It stays mapped: goroutines
// read it until the process ends.
func (b *before) ledger() (*ledger.Page, error) {
	fd, left := b.remains.Take(remains.Ledger)
	if left {
		return ledger.Open(fd)
	}
	page, err := ledger.New()
	if err == nil {
		b.remains.Keep(remains.Ledger, page.FD())
	}
	return page, err
}

// gate is the page by which workers learn whether it is their VM's turn.
func (b *before) gate() (*gate.Page, error) {
	var fds []int
	for p := range remains.Purpose(remains.GateFiles) {
		if fd, left := b.remains.Take(remains.Gate + p); left {
			fds = append(fds, fd)
		}
	}
	if len(fds) == remains.GateFiles {
		return gate.Open(fds[0], fds[1], fds[2])
	}
	handover.CloseFiles(fds) // the previous process died as it began
	page, err := gate.New()
	if err != nil {
		return nil, err
	}
	memory, bell, opened := page.FDs()
	for i, fd := range []int{memory, bell, opened} {
		b.remains.Keep(remains.Gate+remains.Purpose(i), fd)
	}
	return page, nil
}

func (b *before) generation() uint32 {
	if b.facts != nil {
		return b.facts.Generation
	}
	return uint32(time.Now().UnixNano()) | 1
}

// vouchers is where the VM's driver vouches for pages; 0: nowhere.
func (b *before) vouchers() uint64 {
	if b.facts != nil {
		return b.facts.Vouchers
	}
	return 0
}

func (b *before) sequence() uint32 {
	if b.facts != nil {
		return b.facts.Sequence
	}
	return 0
}

// inFile names the file to which the VM was suspended; nil: there is none.
func (b *before) inFile() []byte {
	if b.facts == nil {
		return nil
	}
	return b.facts.InFile
}

func (b *before) suspended() bool { return b.facts != nil && b.facts.Suspended }
func (b *before) ordered() bool   { return b.facts != nil && b.facts.Ordered }

// ready says that front ends can connect.
func (b *before) ready() error {
	b.serves = true
	b.remains.Serves()
	return b.session.ready()
}

// listener is the one that the previous process left for a purpose; nil: it left none.
func (b *before) listener(p remains.Purpose) (*net.UnixListener, error) {
	fd, left := b.remains.Take(p)
	if !left {
		return nil, nil
	}
	l, err := listenerOf(fd)
	if err != nil {
		return nil, fmt.Errorf("take over a socket: %w", err)
	}
	return l, nil
}

func (b *before) keep(p remains.Purpose, l *net.UnixListener) { b.remains.KeepFile(p, l) }
