// SPDX-License-Identifier: Apache-2.0

// Package patience bounds how long tests wait for what must come.
//
// Time counts fully while no process waits for a processor, and hardly while one does, so that a
// busy machine makes no test fail. The kernel says how long processes have waited
// (/proc/pressure/cpu), and in a VM for how long its host ran something else (/proc/stat). Where it
// doesn't, all time counts.
package patience

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Patience is one such bound. Several goroutines may use it.
type Patience struct {
	most       time.Duration
	mu         sync.Mutex
	begin      time.Time
	waited     time.Duration // by processes for processors, when it began
	waitedTime func() time.Duration
	now        func() time.Time
}

// busiest is how many times longer a bound lasts at most, on a machine that is always busy.
const busiest = 8

// Of starts a bound.
func Of(most time.Duration) *Patience {
	p := &Patience{most: most, now: time.Now, waitedTime: pressure}
	p.Renew()
	return p
}

// Renew starts it again.
func (p *Patience) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin, p.waited = p.now(), p.waitedTime()
}

// Over says whether the bound has passed.
func (p *Patience) Over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := p.now().Sub(p.begin)
	return passed > p.most && p.counted(passed) > p.most
}

// Spent is how much of the time since it began counts.
func (p *Patience) Spent() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counted(p.now().Sub(p.begin))
}

// counted is how much of the time that has passed counts. mu is held.
func (p *Patience) counted(passed time.Duration) time.Duration {
	return max(passed-(p.waitedTime()-p.waited), passed/busiest)
}

// lately is how old an answer of the kernel's may be: tests have many bounds, and few last long
// enough to need it.
const lately = 10 * time.Millisecond

var asked struct {
	sync.Mutex
	at     time.Time
	waited time.Duration
}

// pressure is for how long something has waited for a processor since the machine started, one of
// the host's included; 0 where the kernel doesn't count that. It may be as old as lately.
func pressure() time.Duration {
	asked.Lock()
	defer asked.Unlock()
	if now := time.Now(); now.Sub(asked.at) >= lately {
		waited, _ := os.ReadFile("/proc/pressure/cpu")
		spent, _ := os.ReadFile("/proc/stat")
		asked.at, asked.waited = now, pressureOf(string(waited))+stolenOf(string(spent))
	}
	return asked.waited
}

func pressureOf(text string) time.Duration {
	_, total, _ := strings.Cut(text, " total=") // the first line's: some wait
	number, _, _ := strings.Cut(total, "\n")
	us, _ := strconv.ParseInt(number, 10, 64)
	return time.Duration(us) * time.Microsecond
}

// tick is the unit of /proc/stat (USER_HZ).
const tick = 10 * time.Millisecond

// stolenOf is how long the host ran something else on processors that the machine had use for, all
// in sum.
func stolenOf(text string) time.Duration {
	all, _, _ := strings.Cut(text, "\n")
	spent := strings.Fields(all) // cpu, user, nice, system, idle, iowait, irq, softirq, steal, ...
	if len(spent) < 9 {
		return 0
	}
	ticks, _ := strconv.ParseInt(spent[8], 10, 64)
	return time.Duration(ticks) * tick
}
