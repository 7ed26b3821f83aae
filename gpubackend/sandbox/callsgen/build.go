// SPDX-License-Identifier: Apache-2.0

package main

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/seccomp"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// anyPID stands for the number of the process in a program. No process has it.
const anyPID = 0x7ffffffe

// anyControl stands for a worker's connection to the device process. No descriptor has that number.
const anyControl = 0x7ffffffd

// build makes the program of a role's filter.
func build(role sandbox.Role) ([]bpf.Instruction, error) {
	program := seccomp.Program{
		RuleSets: []seccomp.RuleSet{ // the first that has a rule for a call decides
			{
				Rules:  rulesOf(role, func(c *call) bool { return c.answer == 0 && !c.asked }),
				Action: seccomp.Allow,
			},
			{
				Rules:  rulesOf(role, func(c *call) bool { return c.asked }),
				Action: seccomp.UserNotify,
			},
			{
				Rules:  rulesOf(role, func(c *call) bool { return c.answer == unix.EACCES }),
				Action: seccomp.ReturnError.Code(uint16(unix.EACCES)),
			},
			{
				Rules:  rulesOf(role, func(c *call) bool { return c.answer == unix.ENOSYS }),
				Action: seccomp.ReturnError.Code(uint16(unix.ENOSYS)),
			},
		},
		Options: seccomp.ProgramOptions{
			DefaultAction: seccomp.KillProcess, BadArchAction: seccomp.KillProcess,
			HotSyscalls: []uintptr{unix.SYS_FUTEX, unix.SYS_PPOLL},
		},
	}
	instructions, _, err := program.Build()
	return instructions, err
}

// rulesOf returns the rules for those of a role's calls for which a condition holds.
func rulesOf(role sandbox.Role, is func(*call) bool) seccomp.SyscallRules {
	rules := seccomp.NewSyscallRules()
	list := all()
	for i := range list {
		c := &list[i]
		if c.roles&role == 0 || !is(c) {
			continue
		}
		rule := c.rule
		switch {
		case c.own:
			rule = seccomp.PerArg{seccomp.EqualTo(anyPID)}
		case rule == nil:
			rule = seccomp.MatchAll{}
		}
		if c.file > 0 && role&workers != 0 {
			rule = seccomp.And{rule, ownFile(c.file)}
		}
		rules.Add(c.number, rule)
	}
	return rules
}
