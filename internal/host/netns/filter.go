package netns

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"

	"github.com/space-platform/space/internal/host/thread"
)

// tableName is what both tables are called, the one of the inet family and the one of netdev.
const tableName = "space"

// loopbackIndex is the loopback's in every namespace.
const loopbackIndex = 1

// ingressPriority is before everything else that could see a frame.
const ingressPriority = nftables.ChainPriority(-500)

// applyFilter loads the filter in the calling thread's namespace, as one batch: it's there whole or not at all. In nft's words:
//
//	table inet space {
//	  chain input   { type filter hook input priority filter; policy drop; iif lo accept; counter drop }
//	  chain forward { type filter hook forward priority filter; policy drop; counter drop }
//	  chain output  { type filter hook output priority filter; policy drop; oif lo accept; counter drop }
//	}
//	table netdev space {
//	  chain ingress { type filter hook ingress device TAP priority -500; policy drop; counter drop }
//	}
func applyFilter(tap string) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("load the packet filter: %w", err)
	}
	inet := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: tableName})
	addChain(c, inet, "input", nftables.ChainHookInput, *nftables.ChainPriorityFilter, "", onLoopback(expr.MetaKeyIIF))
	addChain(c, inet, "forward", nftables.ChainHookForward, *nftables.ChainPriorityFilter, "", nil)
	addChain(c, inet, "output", nftables.ChainHookOutput, *nftables.ChainPriorityFilter, "", onLoopback(expr.MetaKeyOIF))
	netdev := c.AddTable(&nftables.Table{Family: nftables.TableFamilyNetdev, Name: tableName})
	addChain(c, netdev, "ingress", nftables.ChainHookIngress, ingressPriority, tap, nil)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("load the packet filter: %w", err)
	}
	return nil
}

// addChain adds a chain that accepts what the expressions match, if any, and counts and drops the rest.
func addChain(c *nftables.Conn, t *nftables.Table, name string, hook *nftables.ChainHook, p nftables.ChainPriority, device string, accept []expr.Any) {
	policy := nftables.ChainPolicyDrop
	chain := c.AddChain(&nftables.Chain{
		Table: t, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: &p, Device: device, Policy: &policy,
	})
	if accept != nil {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: append(accept, &expr.Verdict{Kind: expr.VerdictAccept})})
	}
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}})
}

func onLoopback(key expr.MetaKey) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(loopbackIndex)},
	}
}

// Drops returns how many packets each chain of a namespace's filter has dropped: ingress, input, forward, output. A chain that isn't
// there has no entry.
func Drops(path string) (map[string]uint64, error) {
	out := map[string]uint64{}
	err := thread.Run(func() error {
		if err := Enter(path); err != nil {
			return err
		}
		return readDrops(out)
	})
	if err != nil {
		return nil, fmt.Errorf("read the packet filter of %s: %w", path, err)
	}
	return out, nil
}

func readDrops(out map[string]uint64) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	chains, err := c.ListChains()
	if err != nil {
		return err
	}
	for _, chain := range chains {
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil {
			return err
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				if n, ok := e.(*expr.Counter); ok {
					out[chain.Name] += n.Packets
				}
			}
		}
	}
	return nil
}
