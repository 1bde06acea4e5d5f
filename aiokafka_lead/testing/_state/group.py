"""A classic consumer group (Java: ``ClassicGroup``, ``GroupMetadataManager``).

JoinGroup and SyncGroup are answered later, through the function that is passed with the request. A generation starts
once every member has joined or the rebalance timeout has passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from uuid import uuid4

from ... import errors
from .clock import Clock, TimerHandle
from .members import GroupOptions, GroupState, JoinRequest, JoinResult, Member, MemberInfo, SyncResult


class Group:
    """A group of the classic protocol: its members and its state.

    Invariant: In state EMPTY, there are no members. In every other state, ``leader`` is a member once a generation has
    begun.
    """

    def __init__(self, group_id: str, clock: Clock, options: GroupOptions) -> None:
        self.group_id = group_id
        self._clock = clock
        self._options = options
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        # Static members' ids by instance id (KIP-345).
        self.static: dict[str, str] = {}
        # Ids that were assigned but have not joined yet, with the timers that delete them.
        self._promised: dict[str, TimerHandle] = {}
        # Timer that ends the wait for JoinGroup or SyncGroup.
        self._phase_timer: TimerHandle | None = None
        # Time for which a new group waits for more members.
        self._opens_at = 0.0

    # --- joining -----------------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        """Handle a member that joins or rejoins.

        Raises an error, or calls ``reply``, possibly later.
        """
        if self.members and (
            request.protocol_type != self.protocol_type or not self._has_common(request.protocols, request.member_id)
        ):
            raise errors.InconsistentGroupProtocolError(f"the member and group {self.group_id} have no common protocol")
        if not request.protocol_type or not request.protocols:
            raise errors.InconsistentGroupProtocolError("a member must have at least one protocol")
        if not request.member_id:
            self._join_new(request, reply)
        elif request.member_id in self._promised:
            self._promised.pop(request.member_id).cancel()
            self._add(request.member_id, request, reply)
        else:
            self._rejoin(self._checked(request.member_id, request.instance_id), request, reply)

    def _has_common(self, protocols: Sequence[tuple[str, bytes]], member_id: str) -> bool:
        others = [member for member in self.members.values() if member.member_id != member_id]
        return not others or any(all(member.supports(name) for member in others) for name, _ in protocols)

    def _join_new(self, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        member_id = f"{request.instance_id or request.client_id}-{uuid4()}"
        if request.instance_id is not None and request.instance_id in self.static:
            self._replace_static(member_id, request, reply)
        elif request.instance_id is None and request.known_id_required:
            timeout_s = request.session_timeout_ms / 1000
            self._promised[member_id] = self._clock.call_at(
                self._clock.now() + timeout_s, lambda: self._forget_promise(member_id)
            )
            reply(JoinResult(member_id, errors.MemberIdRequiredError()))
        else:
            self._add(member_id, request, reply)

    def _forget_promise(self, member_id: str) -> None:
        self._promised.pop(member_id, None)
        self._maybe_complete_join()

    def _add(self, member_id: str, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        limit = self._options.max_size
        if limit is not None and len(self.members) >= limit:
            raise errors.GroupMaxSizeReachedError(f"group {self.group_id} already has {limit} members")
        member = self.members[member_id] = Member(member_id, request)
        if request.instance_id is not None:
            self.static[request.instance_id] = member_id
        self.protocol_type = request.protocol_type
        if self.leader is None:
            self.leader = member_id
        member.reply_join = reply
        self._prepare_rebalance()

    def _rejoin(self, member: Member, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        unchanged = member.request.protocols == request.protocols
        self._heard_of(member)
        if self.state is GroupState.COMPLETING and unchanged:
            # The response was lost, and the generation that the member joined has begun.
            reply(self._joined(member, tell_members=member.member_id == self.leader))
            return
        if self.state is GroupState.STABLE and unchanged and member.member_id != self.leader:
            reply(self._joined(member, tell_members=False))
            return
        member.request = request
        # The new request replaces a pending one.
        member.reply_join = reply
        self._prepare_rebalance()

    def _replace_static(self, member_id: str, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        """Handle a static member that has returned without its id. It gets a new id, and the old id is fenced."""
        assert request.instance_id is not None
        old = self.members.pop(self.static[request.instance_id])
        fenced = errors.FencedInstanceIdError(f"instance id {request.instance_id} has joined again")
        old.answer_join(JoinResult(old.member_id, fenced))
        old.answer_sync(SyncResult(fenced))
        self._stop_session(old)
        was_leader = self.leader == old.member_id
        member = self.members[member_id] = Member(member_id, request)
        member.assignment = old.assignment
        self.static[request.instance_id] = member_id
        if was_leader:
            self.leader = member_id
        self._heard_of(member)
        if self.state is GroupState.STABLE and self._select_protocol() == self.protocol:
            # The other members are unaffected, so the leader must not assign again. A leader whose version cannot skip
            # the assignment gets its own previous id as the id of the leader.
            result = self._joined(member, tell_members=was_leader and request.may_skip)
            if was_leader:
                result = result._replace(
                    skip_assignment=request.may_skip, leader=member_id if request.may_skip else old.member_id
                )
            reply(result)
        else:
            member.reply_join = reply
            self._prepare_rebalance()

    def _joined(self, member: Member, *, tell_members: bool) -> JoinResult:
        infos = tuple(
            MemberInfo(other.member_id, other.request.instance_id, other.metadata_for(self.protocol))
            for other in self.members.values()
        )
        return JoinResult(
            member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            members=infos if tell_members else (),
        )

    # --- rebalances --------------------------------------------------------------------------------------------------

    def _prepare_rebalance(self) -> None:
        if self.state is not GroupState.PREPARING:
            now = self._clock.now()
            if self.state is GroupState.COMPLETING:
                self._fail_syncs(errors.RebalanceInProgressError())
            delay_s = self._options.initial_rebalance_delay_ms / 1000
            self._opens_at = now + delay_s if self.state is GroupState.EMPTY else now
            if self._opens_at > now:
                self._clock.call_at(self._opens_at, self._maybe_complete_join)
            self.state = GroupState.PREPARING
            self._start_phase(self._join_timed_out)
        self._maybe_complete_join()

    def _start_phase(self, timed_out: Callable[[], None]) -> None:
        """Start a phase that lasts at most as long as the members' longest timeout."""
        if self._phase_timer is not None:
            self._phase_timer.cancel()
        timeout_ms = max((member.request.rebalance_timeout_ms for member in self.members.values()), default=0)
        self._phase_timer = self._clock.call_at(self._clock.now() + timeout_ms / 1000, timed_out)

    def _maybe_complete_join(self) -> None:
        if self.state is not GroupState.PREPARING or self._promised or self._clock.now() < self._opens_at:
            return
        if all(member.reply_join is not None for member in self.members.values()):
            self._begin_generation()

    def _join_timed_out(self) -> None:
        """Remove members that have not rejoined. Static members stay until their session expires."""
        for member in list(self.members.values()):
            if member.reply_join is None and member.request.instance_id is None:
                self._drop(member)
        for timer in self._promised.values():
            timer.cancel()
        self._promised.clear()
        joined = [member.member_id for member in self.members.values() if member.reply_join is not None]
        if self.members and not joined:
            self._start_phase(self._join_timed_out)
            return
        if self.leader not in joined and joined:
            self.leader = joined[0]
        self._begin_generation()

    def _begin_generation(self) -> None:
        """Begin the next generation with the members that have joined, and answer their requests."""
        self.generation += 1
        if self._phase_timer is not None:
            self._phase_timer.cancel()
        if not self.members:
            self.state, self.protocol, self.leader = GroupState.EMPTY, None, None
            return
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.protocol = self._select_protocol()
        self.state = GroupState.COMPLETING
        self._start_phase(self._sync_timed_out)
        for member in list(self.members.values()):
            member.assignment = b""
            self._heard_of(member)
            member.answer_join(self._joined(member, tell_members=member.member_id == self.leader))

    def _select_protocol(self) -> str:
        """Return the protocol preferred by most members, among the protocols that all support."""
        candidates = {
            name
            for name, _ in next(iter(self.members.values())).request.protocols
            if all(member.supports(name) for member in self.members.values())
        }
        votes = Counter(
            next(name for name, _ in member.request.protocols if name in candidates) for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    # --- syncing -----------------------------------------------------------------------------------------------------

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: dict[str, bytes],
        reply: Callable[[SyncResult], None],
    ) -> None:
        """Handle a request for an assignment. The leader's request contains all assignments.

        Raises an error, or calls ``reply``, possibly later.
        """
        member = self._checked(member_id, instance_id)
        if generation != self.generation:
            raise errors.IllegalGenerationError(
                f"group {self.group_id} is at generation {self.generation}, not {generation}"
            )
        if (protocol_type is not None and protocol_type != self.protocol_type) or (
            protocol is not None and protocol != self.protocol
        ):
            raise errors.InconsistentGroupProtocolError(f"group {self.group_id} uses {self.protocol}, not {protocol}")
        if self.state is GroupState.PREPARING:
            raise errors.RebalanceInProgressError()
        self._heard_of(member)
        if self.state is GroupState.STABLE:
            reply(self._synced(member))
            return
        member.reply_sync = reply
        if member_id == self.leader:
            if self._phase_timer is not None:
                self._phase_timer.cancel()
            self.state = GroupState.STABLE
            for other in list(self.members.values()):
                other.assignment = assignments.get(other.member_id, b"")
                other.answer_sync(self._synced(other))

    def _synced(self, member: Member) -> SyncResult:
        return SyncResult(None, self.protocol_type, self.protocol, member.assignment)

    def _sync_timed_out(self) -> None:
        """Remove members that have not sent SyncGroup in time. Without the leader, there are no assignments."""
        if self.state is not GroupState.COMPLETING:
            return
        for member in list(self.members.values()):
            if member.reply_sync is None:
                self._drop(member)
        self._after_removal()

    def _fail_syncs(self, error: errors.BrokerError) -> None:
        for member in list(self.members.values()):
            member.answer_sync(SyncResult(error))

    # --- staying and leaving -----------------------------------------------------------------------------------------

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive. Raises the error in the response to the heartbeat."""
        member = self._checked(member_id, instance_id)
        if generation != self.generation:
            raise errors.IllegalGenerationError(
                f"group {self.group_id} is at generation {self.generation}, not {generation}"
            )
        self._heard_of(member)
        if self.state is GroupState.PREPARING:
            raise errors.RebalanceInProgressError()

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool) -> None:
        """Raise an error if a member, or a client that is not a member, may not commit offsets at present."""
        if generation < 0 and not self.members:
            return
        if generation < 0 and not member_id and instance_id is None:
            if transactional:
                return
            raise errors.UnknownMemberIdError(f"group {self.group_id} has members, so only they may commit offsets")
        member = self._checked(member_id, instance_id)
        if generation != self.generation:
            raise errors.IllegalGenerationError(
                f"group {self.group_id} is at generation {self.generation}, not {generation}"
            )
        if self.state is GroupState.COMPLETING and not transactional:
            raise errors.RebalanceInProgressError()
        self._heard_of(member)

    def leave(self, member_id: str, instance_id: str | None) -> str:
        """Remove a member and return its id. The member is identified by its id, or only by its instance id."""
        if instance_id is not None and not member_id:
            member_id = self.static.get(instance_id, "")
        if member_id in self._promised:
            self._promised.pop(member_id).cancel()
            self._maybe_complete_join()
            return member_id
        member = self._checked(member_id, instance_id)
        self._drop(member)
        unknown = errors.UnknownMemberIdError("the member has left the group")
        member.answer_join(JoinResult(member_id, unknown))
        member.answer_sync(SyncResult(unknown))
        self._after_removal()
        return member_id

    def _checked(self, member_id: str, instance_id: str | None) -> Member:
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                raise errors.UnknownMemberIdError(f"there is no static member {instance_id}")
            if known != member_id:
                raise errors.FencedInstanceIdError(f"instance id {instance_id} now belongs to member {known}")
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberIdError(f"there is no member {member_id}")
        return member

    def _heard_of(self, member: Member) -> None:
        """Restart the session timeout of a member that has sent a request.

        The timer is not moved, because it checks the deadline when it fires.
        """
        member.deadline = self._clock.now() + member.request.session_timeout_ms / 1000
        if member.session_timer is None:
            member.session_timer = self._clock.call_at(member.deadline, lambda: self._look_at_session(member))

    def _look_at_session(self, member: Member) -> None:
        member.session_timer = None
        if self.members.get(member.member_id) is not member:
            return
        now = self._clock.now()
        if member.reply_join is not None or member.reply_sync is not None:
            # The member is waiting for a response, and sends no heartbeats.
            self._heard_of(member)
        elif now < member.deadline:
            member.session_timer = self._clock.call_at(member.deadline, lambda: self._look_at_session(member))
        else:
            self._drop(member)
            self._after_removal()

    @staticmethod
    def _stop_session(member: Member) -> None:
        if member.session_timer is not None:
            member.session_timer.cancel()
            member.session_timer = None

    def _drop(self, member: Member) -> None:
        del self.members[member.member_id]
        self._stop_session(member)
        instance_id = member.request.instance_id
        if instance_id is not None and self.static.get(instance_id) == member.member_id:
            del self.static[instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _after_removal(self) -> None:
        if self.state is GroupState.PREPARING:
            self._maybe_complete_join()
        elif self.state is not GroupState.EMPTY:
            self._prepare_rebalance()

    def coordinator_moved(self, error: errors.BrokerError) -> None:
        """Answer waiting members with an error that sends them to the new coordinator. Sessions restart there."""
        self.answer_all(error)
        for member in self.members.values():
            self._heard_of(member)

    def answer_all(self, error: errors.BrokerError) -> None:
        """Answer all members that wait for JoinGroup or SyncGroup with this error."""
        for member in list(self.members.values()):
            member.answer_join(JoinResult(member.member_id, error))
            member.answer_sync(SyncResult(error))

    def take_over(self, generation: int, protocol_type: str, members: Iterable[tuple[str, JoinRequest, bytes]]) -> None:
        """Take over the members of a group of the new protocol with their assignments, and make them rejoin."""
        self.generation, self.protocol_type, self.state = generation, protocol_type, GroupState.STABLE
        for member_id, request, assignment in members:
            member = self.members[member_id] = Member(member_id, request)
            member.assignment = assignment
            if request.instance_id is not None:
                self.static[request.instance_id] = member_id
            self._heard_of(member)
        self.leader = next(iter(self.members), None)
        self.protocol = self._select_protocol()
        self._prepare_rebalance()

    def close(self) -> None:
        """Cancel every timer, because the group is being deleted or continues under another protocol."""
        for member in self.members.values():
            self._stop_session(member)
        for timer in self._promised.values():
            timer.cancel()
        if self._phase_timer is not None:
            self._phase_timer.cancel()
