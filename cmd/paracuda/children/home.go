// SPDX-License-Identifier: Apache-2.0

package children

import (
	"net"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/hostuse"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/remains"
	softusage "github.com/paracuda/paracuda/gpubackend/soft/usage"
)

// Config says how a VM's processes are started.
type Config struct {
	GPU      string // as hostgpus names kinds
	SoftGPUs int    // how many, on the software GPU
	Sandbox  bool
	// In the sandbox they get this environment. The starter process may connect to these sockets of
	// arbiters, and remove those that the device process has made.
	Environment    []string
	Arbiters, Made []string
	Logs           logs.Flags
	Stderr         *os.File // to which they write
	Log            *logrus.Entry
	Remains        *remains.Remains // where the next device process finds them; nil: none comes
}

// Home starts the VM's processes, and does what else the device process can't do itself.
type Home struct {
	starts
	Memory  func(pids []int) (ledger.Usage, error) // that they have of each GPU
	Weigh   func(pids []int) (map[int]hostuse.Bytes, error)
	Connect func(path string) (*net.UnixConn, error) // to an arbiter; nil: this process may
	Opener  ram.Opener                               // of the guest's memory; nil: nobody can
	// Make makes a file in memory for a worker; nil: nobody can.
	Make func(pid int, f memfd.Form) (*os.File, error)
	End  func(made []string) // ends all, and removes these sockets
	Left []device.Process    // by the previous device process
	Lost <-chan struct{}     // closed when nothing can be started any more
}

// New makes the Home of a VM, or takes it over from the previous device process.
func New(c Config) (*Home, error) {
	if !c.Sandbox {
		c.Log.Warn("--sandbox=off: a program that takes a worker or the device process over has " +
			"this process's rights")
		s := spawner{logs: c.Logs, log: c.Log, stderr: c.Stderr,
			how: start{run: startApart, gpu: c.GPU}}
		ask := func(pids []int) (ledger.Usage, error) { return softusage.Ask(c.SoftGPUs, pids) }
		return &Home{starts: s, Memory: usageOf(c.GPU, s, ask, c.Log), Weigh: weighed,
			End: func([]string) {}}, nil
	}
	files := &childFiles{remains: c.Remains}
	d, left, err := resumeStarter(c.Remains, files, c.Log)
	if err == nil && d == nil {
		d, err = startStarter(&c, files)
	}
	if err != nil {
		return nil, err
	}
	ask := func([]int) (ledger.Usage, error) { return d.softMemory(c.SoftGPUs) }
	return &Home{starts: d, Memory: usageOf(c.GPU, d, ask, c.Log), Weigh: d.weigh,
		Connect: d.client.Connect, Opener: d.client, Make: d.client.Make,
		End: d.end, Left: left, Lost: d.lost}, nil
}
