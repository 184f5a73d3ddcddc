#!/usr/bin/python3
"""Measure how fast the scheduler of Nova chooses hosts for instances that are alike.

It is the filters and weighers of Nova's filter scheduler with their defaults, over hosts in
memory that all have room: no database, no message queue and no Placement, which a real boot
needs as well. Each instance takes its room from the host that was chosen for it before the
next one is placed. Needs Debian's package python3-nova.

    bench/peers/nova-scheduler.py [INSTANCES]
"""

import datetime
import sys
import time
import types

try:
    from nova import conf, objects
    from nova.scheduler import host_manager, manager
except ImportError as e:
    sys.exit(f"{sys.argv[0]}: {e}: apt-get install python3-nova")

conf.CONF([], project="nova", default_config_files=[])
objects.register_all()


class Hosts(host_manager.HostManager):
    """A host manager that reads nothing from a database."""

    def refresh_cells_caches(self):
        pass

    def _init_aggregates(self):
        pass

    def _init_instance_info(self, computes_by_cell=None):
        pass


def host_of(n):
    h = host_manager.HostState(f"host-{n}", f"host-{n}", "cell")
    h.uuid = f"{n:08d}-0000-4000-8000-000000000000"
    h.total_usable_ram_mb = h.free_ram_mb = 1 << 20
    h.total_usable_disk_gb = 4096
    h.free_disk_mb = 4096 << 10
    h.vcpus_total = 4096
    h.ram_allocation_ratio = h.cpu_allocation_ratio = h.disk_allocation_ratio = 1.0
    h.hypervisor_type, h.hypervisor_version = "QEMU", 1
    h.service = {
        "disabled": False, "host": h.host, "topic": "compute", "forced_down": False,
        "created_at": None, "updated_at": None, "last_seen_up": datetime.datetime.utcnow(),
    }
    return h


def request():
    flavor = objects.Flavor(vcpus=1, memory_mb=256, root_gb=1, ephemeral_gb=0, swap=0, extra_specs={})
    return objects.RequestSpec(
        flavor=flavor, image=objects.ImageMeta(properties=objects.ImageMetaProps()), num_instances=1,
        ignore_hosts=None, force_hosts=None, force_nodes=None, requested_destination=None, retry=None,
        scheduler_hints={}, instance_group=None, numa_topology=None, project_id="p",
        availability_zone=None, pci_requests=None, instance_uuid="1" * 32, limits=objects.SchedulerLimits(),
    )


def main():
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    scheduler = types.SimpleNamespace(host_manager=Hosts())
    scheduler.host_manager.servicegroup_api = None
    print(f"{'HOSTS':>6}  {'INSTANCES':>9}  {'MS EACH':>8}")
    for hosts in (1000, 10_000):
        states = [host_of(n) for n in range(hosts)]
        began = time.monotonic()
        for index in range(instances):
            spec = request()
            chosen = manager.SchedulerManager._get_sorted_hosts(scheduler, spec, states, index)
            if not chosen:
                sys.exit("no host was found")
            chosen[0].consume_from_request(spec)
        print(f"{hosts:6d}  {instances:9d}  {(time.monotonic() - began) * 1000 / instances:8.1f}")


main()
