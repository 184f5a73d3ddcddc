// Command kubernetes measures how fast the scheduler of Kubernetes places pods that are alike,
// and whose owner waits for none of them, over nodes that are alike.
//
// It is the scheduler with its default plugins and nothing around it: there is no API server
// and no etcd, objects are in memory, and a binding is accepted at once. So what it prints is a
// bound for what a cluster reaches, where each pod is written and bound through the API server.
// Berth beside it, from the call to every instance ACTIVE, on disk:
//
//	berth bench boots --hosts NODES --callers 256
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// patience is how long the pods of one run may take.
const patience = 5 * time.Minute

func main() {
	pods := flag.Int("pods", 1000, "pods, all of which are there when the scheduler starts")
	flag.Parse()
	klog.SetLogger(klog.Logger{})
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "NODES\tPODS\tMS\tPODS/S")
	for _, nodes := range []int{1000, 10_000} {
		took, err := schedule(nodes, *pods)
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "kubernetes:", err)
			os.Exit(1)
		}
		_, _ = fmt.Fprintf(t, "%d\t%d\t%.0f\t%.0f\n", nodes, *pods, float64(took.Microseconds())/1000, float64(*pods)/took.Seconds())
	}
	_ = t.Flush()
}

// schedule returns how long the scheduler takes from its first pod until all are bound.
func schedule(nodes, pods int) (time.Duration, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var objects []runtime.Object
	for n := range nodes {
		objects = append(objects, nodeOf(n))
	}
	for n := range pods {
		objects = append(objects, podOf(n))
	}
	client := fake.NewClientset(objects...)
	var bound atomic.Int64
	done := make(chan struct{})
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "binding" {
			return false, nil, nil
		}
		if bound.Add(1) == int64(pods) {
			close(done)
		}
		return true, nil, nil
	})
	informers := scheduler.NewInformerFactory(client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	s, err := scheduler.New(ctx, client, informers, nil, profile.NewRecorderFactory(broadcaster))
	if err != nil {
		return 0, fmt.Errorf("making the scheduler: %w", err)
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return 0, fmt.Errorf("waiting until the scheduler knows all nodes: %w", err)
	}
	began := time.Now()
	go s.Run(ctx)
	select {
	case <-done:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%d of %d pods were bound in %s", bound.Load(), pods, patience)
	}
}

// nodeOf returns a node with room for 110 pods.
func nodeOf(n int) *v1.Node {
	room := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	name := fmt.Sprintf("node-%d", n)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// podOf returns a pod that waits for its node.
func podOf(n int) *v1.Pod {
	name := fmt.Sprintf("pod-%d", n)
	wants := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("128Mi")}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: v1.PodSpec{
			SchedulerName: v1.DefaultSchedulerName,
			Containers:    []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: wants}}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}
