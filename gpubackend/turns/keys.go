// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Setting is one setting of a policy.
type Setting struct{ Name, Value, Help string }

// Settings are the settings of a policy, as Policy.Set takes them.
var Settings = []Setting{
	{"weight", "N", fmt.Sprintf(
		"share of the GPU's time among VMs that have work, %d to %d (default: %d)",
		MinWeight, MaxWeight, DefaultWeight)},
	{"time-limit", "PERCENT", "GPU time at most, even if nobody else wants it (default: 100)"},
	{"class", "batch|latency", "latency: within its share it gets its turn as soon as it has " +
		"work (default: batch)"},
	{"turn", "TIME", fmt.Sprintf(
		"length of its turns, %v to %v, or auto: %v to %v, the longer the fewer VMs want the GPU "+
			"(default: auto)", MinTurn, MaxTurn, DefaultTurn, LongTurn)},
}

// ErrKey is returned for a setting that doesn't exist.
var ErrKey = errors.New("unknown key: want weight, time-limit, class or turn")

// Set changes one setting. After an error the policy is as it was.
func (p *Policy) Set(key, value string) error {
	q := *p
	var err error
	switch key {
	case "weight":
		q.Weight, err = positive(value)
	case "time-limit":
		q.Limit, err = positive(value)
	case "class":
		err = q.Class.set(value)
	case "turn":
		err = q.setTurn(value)
	default:
		err = ErrKey
	}
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		return fmt.Errorf("%s=%s: %w", key, value, err)
	}
	*p = q
	return nil
}

// autoTurn is the value of turn that leaves the length to the scheduler.
const autoTurn = "auto"

func (p *Policy) setTurn(value string) (err error) {
	if value == autoTurn {
		p.Turn = 0
		return nil
	}
	if p.Turn, err = time.ParseDuration(value); err != nil || p.Turn == 0 {
		return errors.New("want a time like 5ms, or auto")
	}
	return nil
}

// positive reads a number. 0 is refused: it stands for the default.
func positive(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n == 0 {
		return 0, errors.New("want a number above 0")
	}
	return n, nil
}

func (c *Class) set(value string) error {
	switch value {
	case "batch":
		*c = Batch
	case "latency":
		*c = Latency
	default:
		return errors.New("want batch or latency")
	}
	return nil
}

// String is the class as Set takes it.
func (c Class) String() string {
	if c == Latency {
		return "latency"
	}
	return "batch"
}

// Values are all settings of a policy, by their keys.
func (p Policy) Values() map[string]string {
	turn := autoTurn
	if !p.auto() {
		turn = p.Turn.String()
	}
	p = p.withDefaults()
	return map[string]string{
		"weight": strconv.Itoa(p.Weight), "time-limit": strconv.Itoa(p.Limit),
		"class": p.Class.String(), "turn": turn,
	}
}
